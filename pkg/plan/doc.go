// Package plan defines the planning problem that every planner of Lull solves,
// the plan they return, and the two judges of it: Check says whether a plan is
// feasible, Evaluate what it emits. Planners live in sub-packages, one for each
// published method, and never import each other.
//
// A caller's duties, in order:
//
//  1. Build a Problem and call Validate; planners may assume it is valid.
//  2. Call Planner.Plan. It never changes the problem; equal problems give
//     equal results, byte for byte.
//  3. Read Result.Status and Result.Unplaced before using Result.Plan: an
//     infeasible problem is a result, not an error.
//  4. Call Check on a plan that came from elsewhere (a file, the network).
//
// All intervals are half-open; slots count from zero; emissions are in gCO2eq.
package plan

package decide_test

import (
	"slices"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// mutation is a way to make a decision wrong. apply changes the mutant and reports whether that changes its meaning; if
// once, it does not depend on the task.
type mutation struct {
	name  string
	once  bool
	apply func(m *mutant) bool
}

// forcedCodes are the reasons for which a task runs, whatever its plan.
var forcedCodes = []decide.Code{
	decide.CodeRunning, decide.CodeNoSlack, decide.CodeHeldOut, decide.CodeNoCarbonData, decide.CodeUnscheduled, decide.CodeNextPeriod,
	decide.CodePaused, decide.CodePlannerFailed,
}

// code returns a mutation that states another reason where Lull has chosen a plan.
func code(c decide.Code, when func(m *mutant) bool) mutation {
	return mutation{name: "reason is " + string(c), apply: func(m *mutant) bool {
		ok := m.chosen() && m.hasPlan() && !m.soft() && (when == nil || when(m))
		m.a.Reason.Code = c
		return ok
	}}
}

// verb returns a mutation that does something else than the plan says.
func verb(v decide.Verb) mutation {
	return mutation{name: "verb is " + string(v), apply: func(m *mutant) bool {
		was := m.a.Verb
		m.a.Verb = v
		if m.t.State == decide.Waiting && was == decide.Wait && (v == decide.Release || v == decide.Resume) {
			return m.t.Paused != (v == decide.Resume) // else it is released too soon: another mutation
		}
		return was != v
	}}
}

var mutations = slices.Concat([]mutation{
	{name: "at risk, though its plan is in time", apply: func(m *mutant) bool {
		ok := m.inTime() && m.a.Reason.Code != decide.CodeDeadlineAtRisk
		m.a.Reason.Code = decide.CodeDeadlineAtRisk
		return ok
	}},
	{name: "at risk, plan taken away", apply: func(m *mutant) bool {
		ok := m.inTime() && m.chosen()
		m.a.Reason.Code, m.a.Phases, m.a.Planned = decide.CodeDeadlineAtRisk, nil, false
		return ok
	}},
	{name: "latest start has come, plan taken away", apply: func(m *mutant) bool {
		ok := m.inTime() && m.chosen()
		m.a.Reason.Code, m.a.Phases, m.a.Planned = decide.CodeLatestStart, nil, false
		return ok
	}},
	{name: "plan taken away", apply: func(m *mutant) bool {
		ok := m.hasPlan() && m.chosen()
		m.a.Phases, m.a.Planned = nil, false
		return ok
	}},
	{name: "at risk, and ends late", apply: func(m *mutant) bool {
		ok := m.inTime() && m.chosen()
		if ok {
			m.shift(m.t.Deadline.Sub(m.last().From))
			m.a.Reason.Code = decide.CodeDeadlineAtRisk
			if m.t.State == decide.Waiting {
				m.a.Verb, m.a.Reason.PlannedStart = decide.Wait, m.a.Phases[0].From
			}
		}
		return ok
	}},
	{name: "ends late", apply: func(m *mutant) bool {
		ok := m.inTime() && m.chosen()
		if ok {
			m.shift(m.t.Deadline.Sub(m.last().To) + time.Second)
		}
		return ok
	}},
	{name: "only the last phase ends late", apply: func(m *mutant) bool {
		ok := m.inTime() && m.chosen() && m.t.Kind != workload.Rigid
		if ok {
			by := m.t.Deadline.Sub(m.last().To) + time.Second
			m.last().From, m.last().To = m.last().From.Add(by), m.last().To.Add(by)
		}
		return ok
	}},
	{name: "forbidden cluster", apply: func(m *mutant) bool {
		name := m.other(false)
		m.move(0, name)
		return m.hasPlan() && name != ""
	}},
	{name: "forbidden cluster in the last phase", apply: func(m *mutant) bool {
		name := m.other(false)
		if m.hasPlan() {
			m.last().Cluster = name
		}
		return m.hasPlan() && name != ""
	}},
	{name: "unknown cluster", apply: func(m *mutant) bool {
		m.move(0, "elsewhere")
		return m.hasPlan()
	}},
	{name: "action on another cluster than its phase", apply: func(m *mutant) bool {
		name := m.other(true)
		ok := m.hasPlan() && m.a.Cluster != "" && name != "" && name != m.a.Keeps()[0].Cluster
		m.a.Cluster = name
		return ok
	}},
	{name: "phases on another cluster than the action", apply: func(m *mutant) bool {
		name := m.other(true)
		ok := m.hasPlan() && m.a.Cluster != "" && name != ""
		for k := range m.a.Phases {
			m.a.Phases[k].Cluster = name
		}
		return ok
	}},
	{name: "starts anywhere, though its plan is for a cluster", apply: func(m *mutant) bool {
		ok := m.now() && m.begins() && m.chosen() && m.a.Cluster != "" && len(m.s.Clusters) > 1
		m.a.Cluster = ""
		return ok
	}},
	{name: "migrates, though it cannot", apply: func(m *mutant) bool {
		name := m.other(false)
		ok := m.now() && m.t.State == decide.Running && !m.t.Unscheduled && !m.t.Migratable && m.t.Cluster != "" && name != ""
		if ok {
			m.move(0, name)
			m.a.Verb, m.a.Cluster = decide.Move, name
		}
		return ok
	}},
	{name: "rigid task moves", apply: func(m *mutant) bool {
		ok := m.now() && m.t.State == decide.Running && !m.t.Unscheduled && m.t.Kind == workload.Rigid && len(m.s.Clusters) > 1
		for _, c := range m.s.Clusters {
			if c.Name != m.t.Cluster {
				m.move(0, c.Name)
				m.a.Verb, m.a.Cluster = decide.Move, c.Name
			}
		}
		return ok
	}},
	{name: "rigid task pauses, plan goes on later", apply: func(m *mutant) bool {
		ok := m.now() && m.t.State == decide.Running && !m.t.Unscheduled && m.t.Kind == workload.Rigid
		m.shift(time.Hour)
		m.a.Verb, m.a.Reason.Code, m.a.Reason.LatestStart = decide.Pause, decide.CodeCleanerLater, m.s.Now.Add(time.Hour)
		return ok
	}},
	{name: "rigid task in two pieces", apply: func(m *mutant) bool {
		ok := m.hasPlan() && m.t.Kind == workload.Rigid
		if ok {
			p := *m.last()
			m.last().To = p.From.Add(p.To.Sub(p.From) / 2)
			p.From = m.last().To
			m.a.Phases = append(m.a.Phases, p)
			m.last().From, m.last().To = p.From.Add(time.Hour), p.To.Add(time.Hour)
		}
		return ok
	}},
	{name: "more workers than the maximum", apply: func(m *mutant) bool {
		ok := m.t.Scaling != nil && m.hasPlan() && (m.t.State != decide.Running || m.t.Workers <= m.t.Scaling.MaxWorkers)
		for k := range m.a.Phases {
			m.a.Phases[k].Workers += 3
		}
		if m.a.Workers > 0 {
			m.a.Workers += 3
		}
		return ok
	}},
	{name: "workers of the action above the maximum", apply: func(m *mutant) bool {
		ok := m.t.Scaling != nil && m.runs()
		if ok {
			m.a.Workers = max(m.t.Workers, m.t.Scaling.MaxWorkers) + 1
		}
		return ok
	}},
	{name: "fewer workers than the minimum", apply: func(m *mutant) bool {
		ok := m.t.Scaling != nil && m.hasPlan()
		for k := range m.a.Phases {
			m.a.Phases[k].Workers = 0
		}
		if m.runs() {
			m.a.Workers = 0
		}
		return ok
	}},
	{name: "workers of the action differ from the phase", apply: func(m *mutant) bool {
		ok := m.t.Scaling != nil && m.now() && m.runs() && m.t.Scaling.MaxWorkers > 1 && m.a.Workers == m.a.Phases[0].Workers
		if ok {
			m.a.Workers = m.a.Workers%m.t.Scaling.MaxWorkers + 1
		}
		return ok
	}},
	{name: "workers of a task that does not scale", apply: func(m *mutant) bool {
		m.a.Workers = 2
		return m.t.Scaling == nil
	}},
	{name: "workers of a task that is held", apply: func(m *mutant) bool {
		m.a.Workers = 1
		return m.held()
	}},
	{name: "held in its own phase", apply: func(m *mutant) bool {
		ok := m.now() && m.runs()
		if m.a.Verb, m.a.Workers = decide.Wait, 0; m.t.State == decide.Running {
			m.a.Verb = decide.Pause
		}
		m.a.Reason.LatestStart = m.s.Now.Add(time.Minute)
		return ok
	}},
	{name: "released before its first phase", apply: func(m *mutant) bool {
		ok := m.t.State == decide.Waiting && m.held() && m.later() && (!m.arrived() || m.fitsNow(m.good))
		if m.a.Verb = decide.Release; m.t.Paused {
			m.a.Verb = decide.Resume
		}
		if m.t.Scaling != nil {
			m.a.Workers = m.t.Scaling.MinWorkers
		}
		return ok
	}},
	{name: "goes on before its first phase", apply: func(m *mutant) bool {
		ok := m.t.State == decide.Running && !m.t.Unscheduled && m.held() && m.later()
		if m.a.Verb = decide.Continue; m.t.Scaling != nil {
			m.a.Workers = m.t.Workers
		}
		return ok
	}},
	{name: "wake is zero", once: true, apply: func(m *mutant) bool { m.d.Wake = time.Time{}; return true }},
	{name: "wake is now", once: true, apply: func(m *mutant) bool { m.d.Wake = m.s.Now; return true }},
	{name: "wake is later than the next change", once: true, apply: func(m *mutant) bool {
		m.d.Wake = m.nextChange().Add(time.Millisecond)
		return true
	}},
	{name: "order lacks a task", once: true, apply: func(m *mutant) bool { m.d.Order = m.d.Order[1:]; return true }},
	{name: "order has a task twice", once: true, apply: func(m *mutant) bool {
		m.d.Order[0] = m.d.Order[len(m.d.Order)-1]
		return len(m.d.Order) > 1
	}},
	{name: "order has an index out of range", once: true, apply: func(m *mutant) bool {
		m.d.Order[m.rng.IntN(len(m.d.Order))] = []int{-1, len(m.d.Order)}[m.rng.IntN(2)]
		return true
	}},
	{name: "order starts what must wait first", apply: func(m *mutant) bool {
		if len(m.s.Clusters) > 1 || !m.begins() || !m.hasPlan() || !m.a.Phases[0].From.After(m.s.Now.Add(time.Minute)) || m.fitsNow(m.good) {
			return false
		}
		var first []int // what is released now and begins now
		for k := range m.d.Actions {
			if a := &m.d.Actions[k]; (a.Verb == decide.Release || a.Verb == decide.Resume) && len(a.Phases) > 0 && !a.Phases[0].From.After(m.s.Now) {
				first = append(first, k)
			}
		}
		at := slices.Index(m.d.Order, m.i)
		m.d.Order = slices.Insert(slices.Delete(m.d.Order, at, at+1), 0, m.i)
		return m.fitsNow(m.good, first...)
	}},
	{name: "phases out of order", apply: func(m *mutant) bool {
		slices.Reverse(m.a.Phases)
		return len(m.a.Phases) > 1
	}},
	{name: "phases overlap", apply: func(m *mutant) bool {
		ok := len(m.a.Phases) > 1
		if ok {
			m.a.Phases[0].To = m.a.Phases[1].From.Add(time.Second)
		}
		return ok
	}},
	{name: "phase ends before it begins", apply: func(m *mutant) bool {
		if m.hasPlan() {
			m.last().From, m.last().To = m.last().To, m.last().From
		}
		return m.hasPlan()
	}},
	{name: "phase before now", apply: func(m *mutant) bool {
		if m.hasPlan() {
			m.a.Phases[0].From = m.s.Now.Add(-time.Second)
		}
		return m.hasPlan()
	}},
	{name: "phase before it may start", apply: func(m *mutant) bool {
		if m.hasPlan() {
			m.a.Phases[0].From = m.t.NotBefore.Add(-time.Second)
		}
		return m.hasPlan() && !m.arrived() && m.t.State == decide.Waiting
	}},
	{name: "shifted into room that others have", apply: func(m *mutant) bool {
		m.shift(time.Duration(1+m.rng.IntN(40)) * 7 * time.Minute)
		return m.chosen() && m.hasPlan() && m.held() && m.overcommits()
	}},
	{name: "more workers than there is room for", apply: func(m *mutant) bool {
		ok := m.t.Scaling != nil && m.chosen() && m.hasPlan() && m.held() && m.last().Workers < m.t.Scaling.MaxWorkers
		if ok {
			m.last().Workers = m.t.Scaling.MaxWorkers
		}
		return ok && m.overcommits()
	}},
	{name: "shifted, verb unchanged", apply: func(m *mutant) bool {
		m.shift(10 * time.Minute)
		return m.chosen() && len(m.a.Phases) > 0 && m.runs() && !m.good.Actions[m.i].Phases[0].From.After(m.s.Now)
	}},
	{name: "shifted to now, verb unchanged", apply: func(m *mutant) bool {
		later := m.later()
		if m.hasPlan() {
			m.shift(m.s.Now.Sub(m.a.Phases[0].From))
		}
		return m.chosen() && m.held() && later
	}},
	{name: "half of the work", apply: func(m *mutant) bool {
		return m.good.Actions[m.i].Planned && halve(m)
	}},
	{name: "half of the work of a plan that is followed", apply: func(m *mutant) bool {
		return !m.good.Actions[m.i].Planned && m.chosen() && halve(m)
	}},
	{name: "half of the work of a task without a choice", apply: func(m *mutant) bool {
		return !m.chosen() && slices.Contains(forcedCodes, m.a.Reason.Code) && halve(m)
	}},
	{name: "half of the work in a queue", apply: func(m *mutant) bool {
		return m.queued() && halve(m)
	}},
	{name: "expected to wait in a queue, though there is room", apply: func(m *mutant) bool {
		ok := m.now() && m.begins() && m.fitsNow(m.good)
		m.shift(5 * time.Minute)
		return ok
	}},
	{name: "starts elsewhere in the queue than expected", apply: func(m *mutant) bool {
		m.shift(-time.Minute)
		return m.begins() && m.hasPlan() && m.good.Actions[m.i].Phases[0].From.After(m.s.Now.Add(time.Minute)) && !m.fitsNow(m.good)
	}},
	{name: "action for another task", apply: func(m *mutant) bool {
		m.a.Task = "another"
		return true
	}},
	{name: "actions exchanged", apply: func(m *mutant) bool {
		k := (m.i + 1) % len(m.d.Actions)
		m.d.Actions[m.i], m.d.Actions[k] = m.d.Actions[k], m.d.Actions[m.i]
		return k != m.i
	}},
	{name: "action missing", once: true, apply: func(m *mutant) bool {
		m.d.Actions = m.d.Actions[:len(m.d.Actions)-1]
		return true
	}},
	{name: "action too many", once: true, apply: func(m *mutant) bool {
		m.d.Actions = append(m.d.Actions, m.d.Actions[0])
		return true
	}},
	{name: "latest start later than safe", apply: func(m *mutant) bool {
		ok := m.held() && m.hasPlan() && m.chosen() && !m.soft() && m.t.LatestStart.IsZero() && m.arrived()
		m.a.Reason.LatestStart = m.alone().Add(time.Minute)
		return ok && m.a.Reason.LatestStart.After(m.a.Phases[0].From) && m.a.Reason.LatestStart.After(m.s.Now)
	}},
	{name: "latest start later than a bounded delay allows", apply: func(m *mutant) bool {
		ok := m.held() && m.hasPlan() && m.chosen() && !m.soft() && !m.t.LatestStart.IsZero() && m.arrived()
		m.a.Reason.LatestStart = m.t.LatestStart.Add(time.Minute)
		return ok && m.a.Reason.LatestStart.After(m.a.Phases[0].From)
	}},
	{name: "latest start missing", apply: func(m *mutant) bool {
		m.a.Reason.LatestStart = time.Time{}
		return m.held() && m.hasPlan() && m.chosen() && !m.soft() && m.arrived()
	}},
	{name: "latest start has passed", apply: func(m *mutant) bool {
		m.a.Reason.LatestStart = m.s.Now.Add(-time.Minute)
		return m.held() && m.hasPlan() && m.chosen() && !m.soft() && m.arrived()
	}},
	{name: "planned start is not that of the plan", apply: func(m *mutant) bool {
		m.a.Reason.PlannedStart = m.a.Reason.PlannedStart.Add(time.Minute)
		return m.held() && m.hasPlan() && m.chosen()
	}},
	{name: "held-out task is held", apply: func(m *mutant) bool {
		ok := m.t.HeldOut && m.arrived() && m.runs()
		if m.a.Verb, m.a.Workers = decide.Wait, 0; m.t.State == decide.Running {
			m.a.Verb = decide.Pause
		}
		return ok
	}},
	{name: "held-out task is planned for later", apply: func(m *mutant) bool {
		ok := m.t.HeldOut && m.arrived() && m.now() && m.t.Kind != workload.Rigid
		m.shift(time.Hour)
		if m.a.Verb, m.a.Workers, m.a.Reason.Code = decide.Wait, 0, decide.CodeCleanerLater; m.t.State == decide.Running {
			m.a.Verb = decide.Pause
		}
		m.a.Reason.LatestStart, m.a.Reason.PlannedStart = m.s.Now.Add(2*time.Hour), m.s.Now.Add(time.Hour)
		return ok
	}},
	{name: "task without slack waits", apply: func(m *mutant) bool {
		ok := m.t.Deadline.IsZero() && m.arrived() && m.runs() && !m.soft()
		if m.a.Verb, m.a.Workers = decide.Wait, 0; m.t.State == decide.Running {
			m.a.Verb = decide.Pause
		}
		return ok
	}},
	{name: "task without carbon data waits", apply: func(m *mutant) bool {
		ok := m.a.Reason.Code == decide.CodeNoCarbonData && m.arrived() && m.runs() && m.now()
		m.shift(time.Hour)
		if m.a.Verb, m.a.Workers, m.a.Reason.Code = decide.Wait, 0, decide.CodeCleanerLater; m.t.State == decide.Running {
			m.a.Verb = decide.Pause
		}
		m.a.Reason.LatestStart, m.a.Reason.PlannedStart = m.s.Now.Add(2*time.Hour), m.s.Now.Add(time.Hour)
		return ok
	}},
	{name: "least run is cut", apply: func(m *mutant) bool {
		p := m.a.Phases
		ok := m.a.Reason.Code == decide.CodeTooSoon && m.t.State == decide.Running && m.a.Verb == decide.Continue && m.now() && len(p) > 1 &&
			p[1].From.After(p[0].To) && m.t.AtRisk == 0 && m.t.Checkpoint == 0 && !m.soft() && m.t.LatestStart.IsZero()
		if ok {
			work := float64(p[0].To.Sub(p[0].From)) * m.rate(p[0].Workers)
			m.last().To = m.last().To.Add(time.Duration(work/m.rate(m.last().Workers)) + 1)
			m.a.Phases = p[1:]
			m.a.Verb, m.a.Workers, m.a.Cluster, m.a.Reason.Code, m.a.Reason.PlannedStart = decide.Pause, 0, "", decide.CodeCleanerLater, p[1].From
			ok = !m.last().To.After(m.t.Deadline)
		}
		return ok
	}},
	{name: "least pause is cut", apply: func(m *mutant) bool {
		ok := m.t.State == decide.Waiting && m.t.Paused && m.held() && m.hasPlan() && m.chosen() && !m.soft() && m.a.Planned && m.t.LatestStart.IsZero() &&
			!m.t.Changed.IsZero() && m.a.Phases[0].From.Equal(m.t.Changed.Add(m.s.MinPause)) && len(m.a.Phases) == 1
		if ok {
			m.shift(m.s.Now.Sub(m.a.Phases[0].From))
			m.a.Verb, m.a.Workers, m.a.Reason.Code, m.a.Reason.PlannedStart = decide.Resume, 0, decide.CodeCleanNow, m.s.Now
			if m.t.Scaling != nil {
				m.a.Workers = m.a.Phases[0].Workers
			}
		}
		return ok && !m.overcommits()
	}},
	{name: "new plan is said to stand", apply: func(m *mutant) bool {
		ok := m.a.Planned && m.hasPlan() && m.chosen() && m.t.Standing == nil
		m.a.Planned = false
		return ok
	}},
	{name: "renewed, though there was no plan to renew", apply: func(m *mutant) bool {
		m.a.Renewed = true
		return m.t.Standing == nil || !m.t.Renewable
	}},
	code(decide.CodeLatestStart, func(m *mutant) bool { return m.held() && m.arrived() }),
	code(decide.CodeCleanNow, func(m *mutant) bool { return m.held() }),
	code(decide.CodeCleanerLater, func(m *mutant) bool { return m.now() }),
	code(decide.CodeSharedCapacity, func(m *mutant) bool { return m.now() }),
	code(decide.CodePauseDoesNotPay, func(m *mutant) bool { return m.held() || m.t.State != decide.Running }),
	code(decide.CodeTooSoon, func(m *mutant) bool { return m.t.Changed.IsZero() && !m.t.Changing && m.t.Checkpoint == 0 }),
	code("", nil), code("Because", nil),
	verb(decide.Release), verb(decide.Resume), verb(decide.Scale), verb(decide.Move), verb(decide.Pause), verb(decide.Wait), verb(decide.Continue), verb(""),
}, func() (out []mutation) {
	for _, c := range forcedCodes {
		out = append(out, code(c, func(m *mutant) bool {
			// It is not what it would have to be for this reason.
			t := m.t
			return t.State == decide.Waiting || t.Kind != workload.Rigid && t.Remaining > time.Minute && !t.Unscheduled && !t.KeepsRoom && m.held()
		}))
	}
	return out
}())

// halve takes half of the last phase away; false if the phases still do the work.
func halve(m *mutant) bool {
	if !m.hasPlan() {
		return false
	}
	less := m.last().To.Sub(m.last().From) / 2
	over := m.surplus()
	m.last().To = m.last().To.Add(-less)
	return time.Duration(float64(less)*m.rate(m.last().Workers)) > max(over, 0)+time.Millisecond && over < m.s.Slot
}

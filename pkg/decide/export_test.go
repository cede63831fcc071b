package decide

// GoOn returns what each task will do if no plan is made: those that stand are followed, whatever has to be planned anew.
func GoOn(s Snapshot) [][]Phase {
	s = s.withSaved().withScales().withPossible()
	return s.goOn(false).foresee()
}

package reproduce

func caspianExperiments() []Experiment   { return nil }
func piontekExperiments() []Experiment   { return nil }
func lowCarbonExperiments() []Experiment { return nil }

// CriticalClass is the priority class of jobs that never wait.
const CriticalClass = "critical"

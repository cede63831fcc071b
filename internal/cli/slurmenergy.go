package cli

import (
	"errors"
	"fmt"
	"strings"

	"lull.dev/lull/internal/cluster/slurm"
	engine "lull.dev/lull/internal/engine/slurm"
)

// The values of --energy.
const energyModel, energySlurm = "model", "slurm"

// checkEnergy checks --energy.
func (o *slurmController) checkEnergy() error {
	switch {
	case o.energy != energyModel && o.energy != energySlurm:
		return fmt.Errorf("--energy: %s; accepted: model or slurm", quoted(o.energy))
	case o.energy == energySlurm && o.ledger == "":
		return errors.New("--energy: slurm, without --ledger; accepted: with it, as only the ledger has the energy of jobs")
	case o.energy == energySlurm && o.watts <= 0:
		return errors.New("--watts-per-cpu: 0, with --energy slurm; accepted: above 0, as a job counts by it as submitted, in proportion to what was measured")
	}
	return nil
}

// measure says how the energy counts that Slurm measures; nil if the model counts. What the plugin of Slurm does not measure is that of the model: rapl measures
// processors and memory, gpu measures GPUs, and all others measure nodes as a whole.
func (o *slurmController) measure(about *slurm.About) (*engine.Measure, error) {
	if o.energy != energySlurm {
		return nil, nil
	}
	if about.Energy == "" {
		return nil, errors.New("--energy: slurm, and slurm.conf has no AcctGatherEnergyType; accepted: with one, such as acct_gather_energy/rapl, or --energy model")
	}
	if about.NoEnergy != "" {
		return nil, fmt.Errorf("--energy: slurm, and slurm.conf has %s; accepted: with AccountingStorageType=accounting_storage/slurmdbd, a JobAcctGatherType, and CPUs that jobs do not share, or --energy model", about.NoEnergy)
	}
	m := &engine.Measure{PUE: o.pue, WattsPerCPU: o.watts, WattsPerGPU: o.wattsPerGPU}
	for plugin := range strings.SplitSeq(about.Energy, ",") { // later versions of Slurm take several
		switch strings.TrimPrefix(strings.TrimSpace(plugin), "acct_gather_energy/") {
		case "rapl":
			m.WattsPerCPU = 0
		case "gpu":
			m.WattsPerGPU = 0
		default:
			m.WattsPerCPU, m.WattsPerGPU = 0, 0
		}
	}
	return m, nil
}

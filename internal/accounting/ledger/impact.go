package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"
)

// impactPlugin is a plugin of a manifest, one of those that the Impact Framework brings along.
type impactPlugin struct {
	Path     string                               `json:"path"`
	Method   string                               `json:"method"`
	Config   map[string]any                       `json:"config"`
	Metadata map[string]map[string]impactMetadata `json:"parameter-metadata"`
}

// impactMetadata says what a parameter is, and how several are put together.
type impactMetadata struct {
	Description string            `json:"description"`
	Unit        string            `json:"unit"`
	Aggregation map[string]string `json:"aggregation-method"`
}

// summed is a parameter whose sum over time and components is the whole.
func summed(description, unit string) impactMetadata {
	return impactMetadata{description, unit, map[string]string{"time": "sum", "component": "sum"}}
}

// once is one that no sum makes sense of.
func once(description, unit string) impactMetadata {
	return impactMetadata{description, unit, map[string]string{"time": "none", "component": "none"}}
}

// The names of plugins in the manifest, in the order in which they compute.
const (
	impactOperational = "operational-carbon"
	impactSum         = "carbon"
	impactSCI         = "sci"
)

// WriteImpact writes settlements as a manifest of the Impact Framework (Green Software Foundation,
// version 1.1): a component for each group of q.By, in it an observation for each workload that used
// energy, with its energy (kWh) and the mean intensity of that energy (gCO2eq/kWh). The framework works out
// carbon-operational as their product, and the sums of each component over time; with q.Hardware, carbon-embodied is added, and the SCI per
// functional unit follows. A workload whose emissions are withheld is left out, and counted in the
// description.
//
// Errors wrap ErrInvalid as those of Summarize do, which is to be asked first.
func WriteImpact(out io.Writer, list []Settlement, q Question) error {
	operational := summed("emissions of the energy used", "gCO2eq")
	multiply := impactPlugin{
		"builtin", "Multiply", map[string]any{"input-parameters": []string{"energy", "grid/carbon-intensity"}, "output-parameter": "carbon-operational"},
		map[string]map[string]impactMetadata{
			"inputs":  {"energy": summed("energy of the workload, PUE included", "kWh"), "grid/carbon-intensity": once("mean intensity of that energy", "gCO2eq/kWh")},
			"outputs": {"carbon-operational": operational},
		},
	}
	plugins, compute := map[string]impactPlugin{impactOperational: multiply}, []string{impactOperational}
	aggregated := []string{"energy", "carbon-operational"}
	unit := cmp.Or(q.Unit, "workload")
	if q.Hardware != nil {
		if err := errors.Join(q.Hardware.check(), checkUnit(unit)); err != nil {
			return err
		}
		plugins[impactSum] = impactPlugin{"builtin", "Sum", map[string]any{"input-parameters": []string{"carbon-operational", "carbon-embodied"}, "output-parameter": "carbon"}, map[string]map[string]impactMetadata{
			"inputs":  {"carbon-operational": operational, "carbon-embodied": summed("share of what servers embody", "gCO2eq")},
			"outputs": {"carbon": summed("all emissions", "gCO2eq")},
		}}
		plugins[impactSCI] = impactPlugin{"builtin", "Sci", map[string]any{"functional-unit": "functional-units"}, map[string]map[string]impactMetadata{
			"inputs":  {"functional-units": summed(unit, "")},
			"outputs": {"sci": once("emissions per functional unit", "gCO2eq")},
		}}
		compute, aggregated = append(compute, impactSum, impactSCI), append(aggregated, "carbon-embodied", "carbon", "functional-units")
	}
	children := map[string]any{}
	inputs := map[string][]map[string]any{}
	left := 0
	for i := range list {
		b := &list[i]
		if q.Signal != "" && b.Signal != q.Signal || q.Factor != "" && b.Factor != q.Factor || !(b.KWh > 0) || !b.From.Before(b.To) {
			continue
		}
		if b.Withheld != "" { // its mean intensity is not known
			left++
			continue
		}
		units, err := b.units(unit)
		if q.Hardware != nil && err != nil {
			left++
			continue
		}
		name := "all"
		if q.By != "" {
			var err error
			if name, err = q.group(b); err != nil {
				return err
			}
		}
		input := map[string]any{
			"timestamp": b.From.UTC().Format(time.RFC3339), "duration": b.To.Sub(b.From).Seconds(),
			"energy": b.KWh, "grid/carbon-intensity": b.Grams / b.KWh,
			"lull/workload": b.Workload, "lull/name": b.Of.Namespace + "/" + b.Of.Name, "lull/saved": b.SavedGrams,
		}
		if q.Hardware != nil {
			input["carbon-embodied"], input["functional-units"] = q.Hardware.share(b), units
		}
		inputs[name] = append(inputs[name], input)
	}
	for name, of := range inputs {
		children[name] = map[string]any{"pipeline": map[string]any{"compute": compute}, "inputs": of}
	}
	description := fmt.Sprintf("Workloads settled in the ledger of Lull; functional unit: %s.", unit)
	if left > 0 {
		description += fmt.Sprintf(" It leaves out %s whose figures are withheld, or whose units are not stated.", workloads(left))
	}
	text, err := yaml.Marshal(map[string]any{
		"name": "lull", "description": description,
		"tags":        map[string]any{"kind": "kubernetes", "category": "batch"},
		"initialize":  map[string]any{"plugins": plugins},
		"aggregation": map[string]any{"metrics": aggregated, "type": "horizontal"},
		"tree":        map[string]any{"children": children},
	})
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func workloads(n int) string {
	if n == 1 {
		return "1 workload"
	}
	return fmt.Sprintf("%d workloads", n)
}

package meter

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

// podPowers is what is measured, by pod.
type podPowers map[types.NamespacedName]kube.PodPower

// exporter is one source of the power of pods: the query that asks for it, and how its answer is added to that of the
// sources before. Series carry the namespace and the name of the pod; where Prometheus keeps labels of its own under
// these names, those of the exporter are called exported_namespace and exported_pod.
type exporter struct {
	name, query string
	add         func(into podPowers, name string, samples []provider.Sample)
}

// exporters are those that are asked, in this order. The first that knows a pod counts, for processors and memory, and
// for accelerators: no energy is counted twice.
//
//   - Kepler 0.10 and later: power and energy by zone of RAPL.
//   - Kepler before 0.10: energy by component, in which GPUs are counted apart.
//   - DCGM exporter: power of each GPU, else its energy in mJ, with the pod that holds it.
//   - Kepler's power of GPUs, which it divides among processes.
//   - Kepler before 0.10 that exports no components: the energy of all components, GPUs too.
//
// Sources: Kepler, docs/user/metrics.md (0.10) and pkg/metrics (0.7 to 0.9); DCGM exporter, etc/default-counters.csv.
var exporters = []exporter{
	{"kepler", keplerZones, addZones},
	{"kepler", keplerComponents(), addZones},
	{"dcgm", dcgmDevices, addDevices},
	{"kepler", `sum by (pod_namespace, pod_name) (kepler_pod_gpu_watts{state!="terminated"})`, addGPU},
	{"kepler", `sum by (container_namespace, pod_name) (rate(kepler_container_gpu_joules_total[5m]))`, addGPU},
	{"kepler", `sum by (container_namespace, pod_name) (rate(kepler_container_joules_total[5m]))`, addTotal},
}

const (
	keplerZones = `sum by (pod_namespace, pod_name, zone) (kepler_pod_cpu_watts{state!="terminated"})` +
		` or sum by (pod_namespace, pod_name, zone) (rate(kepler_pod_cpu_joules_total{state!="terminated"}[5m]))`
	// Two scrapes of an exporter differ in other labels.
	dcgmBy      = `max by (UUID, GPU_I_ID, GPU_I_PROFILE, exported_namespace, exported_pod, namespace, pod) `
	dcgmDevices = dcgmBy + `(DCGM_FI_DEV_POWER_USAGE) or ` + dcgmBy + `(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])) / 1000`
)

// The zones that are counted, by the names of RAPL. other is that of Kepler before 0.10: what the platform draws beside
// package, DRAM and GPUs.
const (
	zonePSys    = "psys"
	zonePackage = "package"
	zoneCore    = "core"
	zoneUncore  = "uncore"
	zoneDRAM    = "dram"
	zoneOther   = "other"
)

var zoneNames = []string{zonePSys, zonePackage, zoneCore, zoneUncore, zoneDRAM, zoneOther}

// synonyms are other names of zones: power planes 0 and 1.
var synonyms = map[string]string{"pp0": zoneCore, "pp1": zoneUncore}

// keplerComponents asks for the components of Kepler before 0.10, each of which is a metric, as zones.
func keplerComponents() string {
	var queries []string
	for _, zone := range []string{zonePackage, zoneCore, zoneUncore, zoneDRAM, zoneOther} {
		queries = append(queries, `label_replace(sum by (container_namespace, pod_name) (rate(kepler_container_`+zone+`_joules_total[5m])), "zone", "`+zone+`", "", "")`)
	}
	return strings.Join(queries, " or ")
}

// The labels that name a pod and its namespace, most telling first.
var (
	namespaceLabels = []string{"pod_namespace", "container_namespace", "exported_namespace", "namespace"}
	podLabels       = []string{"pod_name", "exported_pod", "pod"}
)

// podOf returns the pod of a sample; false for a sample without a pod, or with a value that is no power.
func podOf(s *provider.Sample) (types.NamespacedName, bool) {
	pod := types.NamespacedName{Namespace: first(s.Labels, namespaceLabels), Name: first(s.Labels, podLabels)}
	return pod, pod.Name != "" && pod.Namespace != "" && isPower(s.Value)
}

// isPower reports whether a value, in W, may be a power.
func isPower(watts float64) bool { return watts >= 0 && watts <= power.MaxWatts }

func first(labels map[string]string, names []string) string {
	for _, name := range names {
		if v := labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// addZones adds the power of processors and memory, which series tell by zone.
func addZones(into podPowers, name string, samples []provider.Sample) {
	pods := map[types.NamespacedName]map[string]float64{}
	for i := range samples {
		pod, ok := podOf(&samples[i])
		zone := samples[i].Labels["zone"]
		if s := synonyms[zone]; s != "" {
			zone = s
		}
		if !ok || !slices.Contains(zoneNames, zone) {
			continue
		}
		if pods[pod] == nil {
			pods[pod] = map[string]float64{}
		}
		pods[pod][zone] += samples[i].Value
	}
	for pod, zones := range pods {
		if p := into[pod]; p.CPUSource == "" {
			p.CPU, p.CPUSource = cpuWatts(zones), name
			into[pod] = p
		}
	}
}

// cpuWatts returns the power of processors and memory of the zones of a pod, each energy once. Zones contain others:
//
//	psys contains package and dram, and what else is on the board
//	package contains core and uncore
//
// The outermost zone counts that is there: psys, else package and dram; core and uncore stand for a package that is not
// measured. A psys below package and dram does not see all of them (one socket of several) and is not counted.
func cpuWatts(zones map[string]float64) float64 {
	inner := zones[zonePackage]
	if inner == 0 {
		inner = zones[zoneCore] + zones[zoneUncore]
	}
	return max(zones[zonePSys], inner+zones[zoneDRAM]) + zones[zoneOther]
}

// addDevices adds the power of GPUs, which series tell by device. A GPU that several pods share, or that is divided into
// instances (MIG), has a series for each, all with the power of the whole GPU: it is divided among them by the compute
// slices of the instances, equally where these are not known.
func addDevices(into podPowers, name string, samples []provider.Sample) {
	devices := map[string][]*provider.Sample{}
	for i := range samples {
		s := &samples[i]
		id := s.Labels["UUID"]
		if id == "" {
			id = "series " + strconv.Itoa(i)
		}
		if isPower(s.Value) {
			devices[id] = append(devices[id], s)
		}
	}
	watts := map[types.NamespacedName]float64{}
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		series := devices[id]
		instance := func(s *provider.Sample) bool { return s.Labels["GPU_I_ID"] != "" }
		if slices.ContainsFunc(series, instance) { // the whole GPU may have a series too
			series = slices.DeleteFunc(series, func(s *provider.Sample) bool { return !instance(s) })
		}
		all := 0.0
		for _, s := range series {
			all += slicesOf(s)
		}
		for _, s := range series {
			if pod, ok := podOf(s); ok {
				watts[pod] += s.Value * slicesOf(s) / all
			}
		}
	}
	for pod, w := range watts {
		setGPU(into, pod, name, w)
	}
}

// slicesOf returns the compute slices of the instance of a GPU, as 3 of the profile 3g.40gb; 1 for any other series.
func slicesOf(s *provider.Sample) float64 {
	text, _, _ := strings.Cut(s.Labels["GPU_I_PROFILE"], "g.")
	if n, err := strconv.Atoi(text); err == nil && n >= 1 {
		return float64(n)
	}
	return 1
}

// addGPU adds the power of GPUs, which series tell by pod. With 0 W nothing is measured: a GPU always draws some power,
// and Kepler states 0 for pods without one.
func addGPU(into podPowers, name string, samples []provider.Sample) {
	watts := map[types.NamespacedName]float64{}
	for i := range samples {
		if pod, ok := podOf(&samples[i]); ok {
			watts[pod] += samples[i].Value
		}
	}
	for pod, w := range watts {
		if w > 0 {
			setGPU(into, pod, name, w)
		}
	}
}

func setGPU(into podPowers, pod types.NamespacedName, name string, watts float64) {
	if p := into[pod]; p.GPUSource == "" {
		p.GPU, p.GPUSource = watts, name
		into[pod] = p
	}
}

// addTotal adds the power of all components together, GPUs too, of pods of which nothing is known but the power of
// their GPUs. Without that, the total stands for the GPUs as well.
func addTotal(into podPowers, name string, samples []provider.Sample) {
	watts := map[types.NamespacedName]float64{}
	for i := range samples {
		if pod, ok := podOf(&samples[i]); ok {
			watts[pod] += samples[i].Value
		}
	}
	for pod, w := range watts {
		p := into[pod]
		if p.CPUSource != "" {
			continue
		}
		p.CPU, p.CPUSource = max(0, w-p.GPU), name
		into[pod] = p
		setGPU(into, pod, name, 0)
	}
}

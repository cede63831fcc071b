package feedback

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/workload"
)

// family is what workloads alike have in common.
type family struct {
	lengths workload.Lengths
	startup time.Duration
	// running is how long those that run have run, in one go and at one scale, ascending.
	running []time.Duration
	// whole are the quantiles of a run that has not begun; nil until asked.
	whole []workload.RunTimeQuantile
	// used is when it was used last, in the count of Memory.uses.
	used uint64
}

// Family names the workloads that a workload is like: by the annotation lull.dev/family,
// else by kind, owner and labels, without those that controllers add.
func Family(w *kube.Workload) string {
	if name := w.Annotations()[v1alpha1.AnnotationFamily]; name != "" {
		return w.Namespace() + "/" + name
	}
	var parts []string
	for k, v := range w.Objects[0].GetLabels() {
		if !strings.Contains(k, "controller-uid") && !strings.Contains(k, "job-name") && k != v1alpha1.LabelGroup {
			parts = append(parts, k+"="+v)
		}
	}
	for _, o := range w.Objects[0].GetOwnerReferences() {
		parts = append(parts, "owner "+o.Kind+"/"+o.Name)
	}
	sort.Strings(parts)
	return w.Namespace() + "/" + w.Kind.Name + "/" + strings.Join(parts, ",")
}

func (m *Memory) family(name string) *family {
	f := m.families[name]
	if f == nil {
		f = &family{}
		m.families[name] = f
	}
	m.use(f)
	return f
}

func (m *Memory) use(f *family) {
	m.uses++
	f.used = m.uses
}

// mostFamilies is how many families a policy remembers beside those of its workloads. A label or a name that is new with
// every run makes a family each time.
const mostFamilies = 1000

// forgetFamilies drops the families that were used least recently, and are of no workload that is remembered.
func (m *Memory) forgetFamilies() {
	if len(m.families) <= mostFamilies {
		return
	}
	needed := make(map[string]bool, len(m.records))
	for _, r := range m.records {
		needed[r.family] = true
	}
	var unused []string
	for name := range m.families {
		if !needed[name] {
			unused = append(unused, name)
		}
	}
	surplus := len(unused) - mostFamilies
	if surplus <= 0 {
		return
	}
	slices.SortFunc(unused, func(a, b string) int { return cmp.Compare(m.families[a].used, m.families[b].used) })
	for _, name := range unused[:surplus] {
		delete(m.families, name)
	}
}

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/zones"
)

// completionTime is how long completion may ask a cluster: a shell waits for it. After that it offers nothing.
const completionTime = 2 * time.Second

// completes reports whether a shell asks what would complete a command line.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// addCompletion registers what completes each argument and flag: names, files with an extension, folders, or nothing. Call it only if a
// shell asks for completions: cobra never frees what is registered for a flag.
func addCompletion(c *cobra.Command) {
	if args, known := argumentCompletions[c.CommandPath()]; known {
		c.ValidArgsFunction = args
	} else if c.Runnable() && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { _ = c.RegisterFlagCompletionFunc(f.Name, flagCompletion(c, f)) })
	for _, sub := range c.Commands() {
		addCompletion(sub)
	}
}

// flagCompletion is what completes the value of a flag.
func flagCompletion(c *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	if v, is := f.Value.(*choiceValue); is {
		return words(v.accepted...)
	}
	for _, name := range []string{c.CommandPath() + " --" + f.Name, f.Name} {
		if complete, known := flagCompletions[name]; known {
			return complete
		}
	}
	return cobra.NoFileCompletions
}

// argumentCompletions are by command; commands that are not here take no arguments, or none that can be known.
var argumentCompletions = map[string]cobra.CompletionFunc{
	"lull check":             filesThatEnd("json"),
	"lull forecast backtest": filesThatEnd("csv", "json", "gz"),
	"lull run":               anyFile,
	"lull kinds":             first(words(kindNames(kinds.Builtin())...)),
	"lull reproduce":         experiments,
	"lull explain":           first(clusterNames(workloadNames)),
	"lull release":           first(clusterNames(workloadNames)),
	"lull get policies":      first(clusterNames(policyNames)),
	"lull get zones":         first(clusterNames(gridZoneNames)),
	"lull get workloads":     first(clusterNames(workloadNames)),
	"lull get planners":      first(words(plannerNames()...)),
	"lull capacity explain":  first(clusterNames(curveNames)),
}

// flagCompletions are by the name of the flag, or, if it means something else there, by command and flag.
var flagCompletions = map[string]cobra.CompletionFunc{
	// names of the cluster
	"namespace":           clusterNames(namespaceNames),
	"system-namespace":    clusterNames(namespaceNames),
	"kueue-namespace":     clusterNames(namespaceNames),
	"workload":            clusterNames(workloadNames),
	"lull profile --zone": clusterNames(gridZoneNames),
	// names that Lull knows
	"planner":                    words(plannerNames()...),
	"lull plan --planner":        words(append(plannerNames(), "list")...),
	"planners":                   commaWords(PolicyPlanners()...),
	"zone":                       words(zoneNames()...),
	"kinds":                      commaWords(kindNames(kinds.Builtin())...),
	"lull plan generate --kinds": commaWords("rigid", "interruptible", "elastic"),
	"kind":                       words("rigid", "interruptible", "elastic"),
	"signal":                     words("average", "marginal"),
	"factor":                     words("lifecycle", "direct"),
	"lull fakegrid --factor":     cobra.NoFileCompletions,
	"estimate":                   words("exact", "requested", "mean", "learned"),
	"objective":                  words("carbon", "mosp"),
	"format":                     words("csv", "swf", "gwf", "sacct", "kubernetes"),
	"lull report --by":           words("namespace", "team", "policy", "zone", "kind", "label:"),
	"unit":                       words("workload", "worker-hour", "label:"),
	"source":                     sources,
	// files
	"filename":                    filesThatEnd("json"),
	"lull simulate --filename":    filesThatEnd("yaml", "yml"),
	"lull profile --filename":     filesThatEnd("yaml", "yml", "json"),
	"lull plan --start":           filesThatEnd("json"),
	"lull plan --output":          filesThatEnd("json"),
	"lull plan generate --output": filesThatEnd("json"),
	"lull profile --output":       filesThatEnd("yaml", "yml"),
	"lull slurm install --output": filesThatEnd("lua"),
	"output":                      anyFile,
	"lull simulate --jobs":        filesThatEnd("csv", "swf", "gwf", "sacct", "json", "gz"),
	"lull advise --jobs":          filesThatEnd("csv", "swf", "gwf", "sacct", "json", "gz"),
	"lull simulate --carbon":      filesThatEnd("csv", "json"),
	"lull advise --carbon":        anyFile,
	"lull demo --trace":           filesThatEnd("csv", "json"),
	"lull fakegrid --trace":       anyFile,
	"weather":                     anyFile,
	"profile":                     filesThatEnd("csv"),
	"recorded":                    filesThatEnd("csv", "gz"),
	"config":                      filesThatEnd("yaml", "yml"),
	"kind-file":                   filesThatEnd("yaml", "yml"),
	"policy":                      filesThatEnd("yaml", "yml"),
	"html":                        filesThatEnd("html"),
	"lull demo --report":          filesThatEnd("html"),
	"csv":                         filesThatEnd("csv"),
	"json":                        filesThatEnd("json"),
	"parquet":                     filesThatEnd("parquet"),
	"markdown":                    filesThatEnd("md"),
	"export":                      filesThatEnd("jsonl"),
	"database":                    filesThatEnd("db"),
	"ledger":                      filesThatEnd("db"),
	"kubeconfig":                  anyFile,
	"credential-file":             anyFile,
	"token-file":                  anyFile,
	"prometheus-token-file":       anyFile,
	"tls-cert-file":               anyFile,
	"tls-private-key-file":        anyFile,
	"client-ca-file":              anyFile,
	"web-tls-cert-file":           anyFile,
	"web-tls-private-key-file":    anyFile,
	"lab":                         anyFile,
	"cache-dir":                   folders,
	"data":                        folders,
	"slurm-bin":                   folders,
	"provision-hooks":             folders,
}

// words offers words that begin as what is typed.
func words(list ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return beginningWith(typed, list), cobra.ShellCompDirectiveNoFileComp
	}
}

// beginningWith keeps the words that begin with a text.
func beginningWith(typed string, list []string) (out []string) {
	for _, word := range list {
		if strings.HasPrefix(word, typed) {
			out = append(out, word)
		}
	}
	return out
}

// commaWords offers the next word of a list with commas, without those that are there.
func commaWords(list ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		end := strings.LastIndex(typed, ",") + 1
		there := strings.Split(typed[:end], ",")
		var out []string
		for _, word := range beginningWith(typed[end:], list) {
			if !slices.Contains(there, word) {
				out = append(out, typed[:end]+word)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// first offers something for the first argument alone.
func first(of cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(cmd, args, typed)
	}
}

func filesThatEnd(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

func anyFile(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// sources offers the names of sources and, if none begins so, files.
func sources(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if list := beginningWith(typed, sourceNames()); len(list) > 0 {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"csv", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// experiments offers papers, then the experiments of the paper.
func experiments(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := append([]string{"all"}, append(slices.Clone(reproduce.Papers), reproduce.Own)...)
	if len(args) > 0 {
		list = nil
		for _, x := range reproduce.All() {
			if len(args) == 1 && x.Paper == args[0] {
				list = append(list, x.ID)
			}
		}
	}
	return beginningWith(typed, list), cobra.ShellCompDirectiveNoFileComp
}

// zoneNames are the zones with built-in intensities and the regions of clouds.
func zoneNames() []string {
	names := climatology.Zones()
	for _, r := range zones.Regions() {
		names = append(names, r.Cloud+"/"+r.Name)
	}
	return names
}

// clusterNames offers names that the cluster has. Without a cluster, without the right to read them, or if it does not answer in
// time, it offers nothing and says nothing: a shell has no place for errors.
func clusterNames(read func(context.Context, client.Client, string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		found := make(chan []string, 1)
		go func() { // not every call that makes a client heeds the context
			f := clusterFlags{timeout: completionTime}
			f.kubeconfig, _ = cmd.Flags().GetString("kubeconfig")
			f.namespace, _ = cmd.Flags().GetString("namespace")
			f.all, _ = cmd.Flags().GetBool("all-namespaces")
			ns, err := f.scope()
			if err != nil { // no kubeconfig, as in a pod
				ns = corev1.NamespaceDefault
			}
			c, err := f.connect(ctx)
			if err != nil {
				found <- nil
				return
			}
			names, err := read(ctx, c, ns)
			if err != nil {
				names = nil
			}
			found <- names
		}()
		select {
		case <-ctx.Done():
			return nil, cobra.ShellCompDirectiveNoFileComp
		case names := <-found:
			slices.Sort(names)
			return beginningWith(typed, slices.Compact(names)), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// namesOf are the names of a list of objects.
func namesOf[T any, P interface {
	*T
	client.Object
}](items []T) (names []string) {
	for i := range items {
		names = append(names, P(&items[i]).GetName())
	}
	return names
}

func namespaceNames(ctx context.Context, c client.Client, _ string) ([]string, error) {
	var l corev1.NamespaceList
	err := c.List(ctx, &l)
	return namesOf(l.Items), err
}

func policyNames(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	var l v1alpha1.CarbonPolicyList
	err := c.List(ctx, &l, client.InNamespace(namespace))
	return namesOf(l.Items), err
}

func gridZoneNames(ctx context.Context, c client.Client, _ string) ([]string, error) {
	var l v1alpha1.GridZoneList
	err := c.List(ctx, &l)
	return namesOf(l.Items), err
}

func curveNames(ctx context.Context, c client.Client, _ string) ([]string, error) {
	var l v1alpha1.CapacityCurveList
	err := c.List(ctx, &l)
	return namesOf(l.Items), err
}

// workloadNames are those of the governed workloads, KIND/NAME.
func workloadNames(ctx context.Context, c client.Client, namespace string) (names []string, err error) {
	plans, err := plansIn(ctx, c, namespace)
	rows := workloadRows(plans)
	for i := range rows {
		names = append(names, rows[i].called())
	}
	return names, err
}

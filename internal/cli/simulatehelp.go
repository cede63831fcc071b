package cli

// simulateHelp is the long help of lull simulate.
const simulateHelp = `Simulate runs jobs on a virtual clock. It shows what planners would have saved against
a start of every job at its submission, and with what delay. The function that the live
controllers call decides every start, pause and change of scale.

Jobs are generated, or come from a trace. These formats are read, also gzipped:
  CSV with id,arrival_s,length_s,cpus
  the emissions.csv of CodeCarbon, with the power and the zone that it states
  SWF, GWF
  the output of sacct -X -P of Slurm
  the output of "kubectl get jobs,pods -o json" or "kubectl get workloads -o json", also of
  one object, of other kinds that Lull knows, or as YAML
The intensity comes from trace files, else from the built-in climatology of a zone. Flags
describe the common case, one cluster. A scenario file (--example prints one) can also
describe many clusters, machines, forecasts and faults. Flags override the file.

Planners run side by side on equal jobs. Equal inputs and seed give equal results.
Without --uncertain, planners know run times and the future intensity. In production they
do not, and save less. If they do not know one of them, the row "all but arrivals known
(joint)" shows what planner joint would save if it did.

The default planners are that of a CarbonPolicy without spec.planner (joint with a learned
reserve, and plans that stand until something changes), cheapest and window. A planner
that you name, as in --planner joint, keeps no reserve and plans again in each slot, unless
its parameters say otherwise; this saves more. The report ends with the form in which a
CarbonPolicy states each planner. The defaults of slot and margin are those of a
CarbonPolicy.

If the intensity of an hour is not known, Simulate uses the value of the same hour on the
nearest earlier day, else on the nearest later one, at most 7 days away. The report says
how many hours those were. If there is no such value, it states no emissions and savings.`

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// workloadVariable names the workload in pods.
const workloadVariable = "LULL_WORKLOAD"

func newProgressCommand() *cobra.Command {
	var f clusterFlags
	workload := ""
	cmd := &cobra.Command{
		Use:   "progress SHARE",
		Short: "Write how much of the work of a workload is done",
		Long: `Progress writes the share of the work that is done, 0 to 1, to a workload. Run it in one of
its pods or in a sidecar. The pod's service account needs only the right to patch the
workload.`,
		Example: `  lull progress 0.42 --workload job/train
  LULL_WORKLOAD=job/train lull progress 0.42`,
		Args: takes(1, 1, "the share that is done, 0 to 1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := strconv.ParseFloat(args[0], 64)
			if err != nil || !(v >= 0 && v <= 1) {
				return fmt.Errorf("progress: %q; accepted: a number from 0 to 1", args[0])
			}
			if workload == "" {
				return fmt.Errorf("--workload: not set; accepted: KIND/NAME, or $%s", workloadVariable)
			}
			if f.namespace == "" {
				f.namespace = podNamespace()
			}
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			w, err := f.workload(cmd.Context(), c, workload)
			if err != nil {
				return err
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
				v1alpha1.AnnotationProgress: strconv.FormatFloat(v, 'g', 6, 64),
			}}})
			if err != nil {
				return err
			}
			return c.Patch(cmd.Context(), w.Objects[0], client.RawPatch(types.MergePatchType, patch))
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&workload, "workload", os.Getenv(workloadVariable), "the workload, KIND/NAME (default $"+workloadVariable+")")
	return cmd
}

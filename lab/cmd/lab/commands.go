package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/lab/internal/controlplane"
)

// errDown makes `lab status` of a lab that is not ready exit with a status
// other than 0.
var errDown = errors.New("the lab is not ready")

func newUp() *cobra.Command {
	o := controlplane.DefaultOptions()
	foreground, dryRun := false, false
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and wait until it is ready",
		Long: `Up starts a lab and returns when its nodes are ready; the lab goes on in the
background until "lab down". A lab that is already up is left as it is. With
--foreground the lab lasts as long as the command.

With --kueue there is a queue "lab" of all that the nodes offer. With --spokes the lab is a
hub without nodes; its spokes are labs of their own, in spokes/spoke-1 and so on below its
folder, and MultiKueue sends work to the one that the dispatcher lull.dev/dispatcher names.

With --kubernetes the API server, the controller manager and the scheduler are of an older
minor version. The first time, "make kubernetes" builds them: 4 to 15 minutes.`,
		Example: `  lab up
  lab up --dir /tmp/b --nodes 2 --cpu 32 --gpus 8 --time-factor 900
  lab up --spokes 3 --kueue
  lab up --kubernetes 1.33
  lab up --foreground`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			if dryRun {
				return nil
			}
			if err := o.BuildKubernetes(cmd.Context(), cmd.ErrOrStderr()); err != nil {
				return err
			}
			if foreground {
				return controlplane.Supervise(cmd.Context(), o, func(s controlplane.State) {
					fmt.Fprintf(cmd.OutOrStdout(), "ready in %s: %s, kubeconfig %s\n", s.BootTime, s.Server, s.Kubeconfig)
				})
			}
			return up(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	optionFlags(cmd, &o)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether these options make sense on this machine")
	cmd.Flags().BoolVar(&foreground, "foreground", false, "stay until interrupted, and end the lab then")
	return cmd
}

// optionFlags adds a flag for each option of a lab.
func optionFlags(cmd *cobra.Command, o *controlplane.Options) {
	f := cmd.Flags()
	dirFlag(cmd, &o.Dir)
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "number of fake nodes")
	f.StringVar(&o.CPU, "cpu", o.CPU, "CPUs of each node")
	f.StringVar(&o.Memory, "memory", o.Memory, "memory of each node")
	f.IntVar(&o.GPUs, "gpus", o.GPUs, "nvidia.com/gpu of each node")
	f.Float64Var(&o.TimeFactor, "time-factor", o.TimeFactor, "how many seconds of a pod's stated run time pass in a second")
	f.StringVar(&o.SchedulerConfig, "scheduler-config", "", "file with a KubeSchedulerConfiguration (default: kube-scheduler's own)")
	f.BoolVar(&o.RealNode, "real-node", false, "add a node that really runs pods: a kubelet with containerd (needs root)")
	f.StringArrayVar(&o.Images, "image", nil, "image for that node, NAME:TAG=BINARY of a static binary, or NAME:TAG=FILE.tar as docker save writes it; may be repeated")
	f.BoolVar(&o.Kueue, "kueue", false, "run Kueue beside the scheduler (make kueue builds it)")
	f.StringSliceVar(&o.Frameworks, "framework", o.Frameworks, "kinds that Kueue manages, by the names of its integrations")
	f.StringSliceVar(&o.KueueFeatures, "kueue-feature-gates", nil, "feature gates of Kueue, NAME=true or NAME=false")
	f.StringArrayVar(&o.Manifests, "manifests", nil, "file of custom resources to install ahead of Kueue, which are those of its kinds; may be repeated")
	f.IntVar(&o.Spokes, "spokes", 0, "number of clusters that this one, as their hub, sends work to")
	f.BoolVar(&o.KeepData, "keep-data", false, "serve what an earlier lab in the same folder has stored, as after an upgrade of the control plane")
	f.StringArrayVar(&o.APIServerFlags, "api-server-flag", nil, "further flag of kube-apiserver, --NAME=VALUE; may be repeated")
	f.StringVar(&o.Kubernetes, "kubernetes", "", "run the control plane of an older minor version, such as 1.33 (default: the lab's own)")
	f.BoolVar(&o.Restart, "restart", false, "start components again that end by themselves, instead of ending the lab")
}

func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", controlplane.DefaultOptions().Dir, "folder of the lab")
}

// optionArgs are the flags that give a supervisor the options: what optionFlags reads.
func optionArgs(o controlplane.Options) []string {
	args := []string{"--dir", o.Dir, "--nodes", strconv.Itoa(o.Nodes), "--cpu", o.CPU,
		"--memory", o.Memory, "--gpus", strconv.Itoa(o.GPUs), "--time-factor", strconv.FormatFloat(o.TimeFactor, 'g', -1, 64), "--restart=" + strconv.FormatBool(o.Restart), "--real-node=" + strconv.FormatBool(o.RealNode),
		"--kueue=" + strconv.FormatBool(o.Kueue), "--spokes", strconv.Itoa(o.Spokes), "--kubernetes", o.Kubernetes, "--keep-data=" + strconv.FormatBool(o.KeepData)}
	if o.SchedulerConfig != "" {
		args = append(args, "--scheduler-config", o.SchedulerConfig)
	}
	for _, image := range o.Images {
		args = append(args, "--image", image)
	}
	for _, name := range o.Manifests {
		args = append(args, "--manifests", name)
	}
	for _, text := range o.APIServerFlags {
		args = append(args, "--api-server-flag", text)
	}
	if len(o.KueueFeatures) > 0 {
		args = append(args, "--kueue-feature-gates", strings.Join(o.KueueFeatures, ","))
	}
	return append(args, "--framework", strings.Join(o.Frameworks, ","))
}

// up starts a supervisor of its own session and waits until it says ready.
func up(ctx context.Context, out io.Writer, o controlplane.Options) error {
	s, err := controlplane.ReadState(o.Dir)
	if err != nil {
		return err
	}
	if s.Phase == controlplane.Ready {
		fmt.Fprintf(out, "already up: %s, kubeconfig %s\n", s.Server, s.Kubeconfig)
		return nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.Dir, "supervisor.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{"up", "--foreground"}, optionArgs(o)...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended stands in the lab's state
		close(ended)
	}()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			return ctx.Err()
		case <-ended:
			if s, err := controlplane.ReadState(o.Dir); err == nil && s.Error != "" {
				return errors.New(s.Error)
			}
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the lab did not start: %s", text)
		case <-ticker.C:
			s, err := controlplane.ReadState(o.Dir)
			if err == nil && s.Phase == controlplane.Ready && s.PID == cmd.Process.Pid {
				fmt.Fprintf(out, "ready in %s: %s, kubeconfig %s\n", s.BootTime, s.Server, s.Kubeconfig)
				return nil
			}
		}
	}
}

func newDown() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:     "down",
		Short:   "End a lab; its logs stay",
		Example: "  lab down\n  lab down --dir /tmp/b",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return down(cmd.OutOrStdout(), dir)
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

// downTimeout bounds how long an orderly end may take: each component has its
// own grace.
const downTimeout = 4 * time.Minute

func down(out io.Writer, dir string) error {
	s, err := controlplane.ReadState(dir)
	if err != nil {
		return err
	}
	if s.Phase != controlplane.Ready && s.Phase != controlplane.Starting {
		fmt.Fprintln(out, "already down")
		return nil
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for deadline := time.Now().Add(downTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if s, err = controlplane.ReadState(dir); err == nil && (s.Phase == controlplane.Down || s.Phase == controlplane.Failed) {
			fmt.Fprintln(out, "down")
			return nil
		}
	}
	return fmt.Errorf("the supervisor (process %d) did not end within %s", s.PID, downTimeout)
}

func newStatus() *cobra.Command {
	dir, asJSON := "", false
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say what runs; exit status 1 when the lab is not ready",
		Example: "  lab status\n  lab status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := controlplane.ReadState(dir)
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), s, asJSON); err != nil {
				return err
			}
			if s.Phase != controlplane.Ready {
				return errDown
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state as JSON")
	return cmd
}

func printStatus(out io.Writer, s controlplane.State, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "phase\t%s\n", s.Phase)
	if s.Options.Kubernetes != "" {
		fmt.Fprintf(tw, "kubernetes\t%s\n", s.Options.Kubernetes)
	}
	if s.Error != "" {
		fmt.Fprintf(tw, "error\t%s\n", s.Error)
	}
	if s.Phase == controlplane.Ready {
		fmt.Fprintf(tw, "server\t%s\nkubeconfig\t%s\nnodes\t%d of %s CPUs\ntime factor\t%g\n", s.Server, s.Kubeconfig, s.Options.Nodes, s.Options.CPU, s.Options.TimeFactor)
	}
	names := make([]string, 0, len(s.Components))
	for name := range s.Components {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(tw, "%s\tprocess %d\n", name, s.Components[name])
	}
	for _, spoke := range s.Spokes {
		fmt.Fprintf(tw, "%s\t%s, kubeconfig %s\n", spoke.Name, spoke.Server, spoke.Kubeconfig)
	}
	return tw.Flush()
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format of the Kubernetes components
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the Kubernetes components
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric of the Kubernetes components
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"

	"lull.dev/lull/lab/internal/controlplane"

	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

// roles are the components this one binary can be. Each reads its own flags
// from os.Args and returns the exit status of the process.
var roles = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kwok":                    runKWOK,
	controlplane.NodeRole:     func() int { return controlplane.RunNode(os.Args[1:]) },
}

// runRole becomes the component named by args[0].
func runRole(args []string) int {
	if len(args) == 0 {
		fmt.Fprintf(os.Stderr, "lab %s: no component named\n", controlplane.RoleCommand)
		return 2
	}
	run, ok := roles[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "lab %s: unknown component %q\n", controlplane.RoleCommand, args[0])
		return 2
	}
	os.Args = args
	return run()
}

// runEtcd runs one etcd member from the configuration file given as
// --config-file until it fails or the process is told to end.
func runEtcd() int {
	flags := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	file := flags.String("config-file", "", "etcd configuration file")
	if err := flags.Parse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 2
	}
	cfg, err := embed.ConfigFromFile(*file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	// The cluster lives for minutes and is thrown away: no fsync. A zero
	// duration, which a file without the field gives, would log every request.
	cfg.UnsafeNoFsync = true
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	case <-time.After(time.Minute):
		fmt.Fprintln(os.Stderr, "etcd: not ready within a minute")
		return 1
	case <-ctx.Done():
	}
	select {
	case err := <-server.Err():
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	case <-ctx.Done():
		server.Close()
		return 0
	}
}

// runKWOK runs the KWOK controller, which plays the kubelet of nodes that do
// not exist. It keeps its flags on pflag.CommandLine, where the Kubernetes
// components have put theirs by the time this runs, so it gets a fresh one.
func runKWOK() int {
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, logger := kwoklog.InitFlags(ctx, flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("read configuration", "err", err)
		return 1
	}
	command := kwokcmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil && ctx.Err() == nil {
		logger.Error("run", "err", err)
		return 1
	}
	return 0
}

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"slices"

	"github.com/spf13/pflag"

	"lull.dev/lull/internal/cluster/slurm"
)

// slurmAPI says how the controller talks to Slurm.
type slurmAPI struct{ api, rest, user, tokenFile string }

// slurmAPIs are the values of --slurm-api.
var slurmAPIs = []string{"auto", "commands", "rest"}

func (o *slurmAPI) register(f *pflag.FlagSet) {
	f.StringVar(&o.api, "slurm-api", "auto", `how to talk to Slurm: commands; rest, which is slurmrestd for what it can do and the commands for the rest; auto, which is rest if --slurm-rest is set and answers at the start, else commands`)
	f.StringVar(&o.rest, "slurm-rest", "", "address of slurmrestd: unix:/path/of/socket, http://127.0.0.1:6820, or an https:// address (default: none)")
	f.StringVar(&o.user, "slurm-rest-user", "", "user whose token is sent to slurmrestd (default: the user of this process)")
	f.StringVar(&o.tokenFile, "slurm-token-file", "", "file with a token for slurmrestd, as scontrol token prints it; read for each call (default: none, for rest_auth/local)")
}

// open chooses how to talk to Slurm, once, and says so in the log.
func (o *slurmAPI) open(ctx context.Context, commands slurm.Commands, log *slog.Logger) (slurm.Client, slurm.About, error) {
	fail := func(err error) (slurm.Client, slurm.About, error) { return nil, slurm.About{}, err }
	switch {
	case !slices.Contains(slurmAPIs, o.api):
		return fail(fmt.Errorf("--slurm-api: %s; accepted: auto, commands or rest", quoted(o.api)))
	case o.api == "rest" && o.rest == "":
		return fail(fmt.Errorf("--slurm-rest: missing, and --slurm-api is rest; accepted: the address of slurmrestd"))
	case o.rest == "" && (o.user != "" || o.tokenFile != ""):
		return fail(fmt.Errorf("--slurm-rest-user, --slurm-token-file: set without --slurm-rest; accepted: with it"))
	case o.user != "" && o.tokenFile == "":
		return fail(fmt.Errorf("--slurm-rest-user: set without --slurm-token-file; accepted: with it, as slurmrestd knows users by their tokens"))
	}
	if o.rest != "" && o.api != "commands" {
		name, err := o.userName()
		if err != nil {
			return fail(err)
		}
		rest, err := slurm.NewREST(commands, o.rest, name, o.tokenFile)
		if err != nil {
			return fail(fmt.Errorf("--slurm-rest: %w", err))
		}
		about, err := rest.Check(ctx)
		if err == nil || o.api == "rest" {
			return rest, about, err
		}
		log.Warn("slurmrestd cannot be used: Lull uses the commands of Slurm", "error", oneLine(err))
	}
	about, err := commands.Check(ctx)
	return commands, about, err
}

func (o *slurmAPI) userName() (string, error) {
	if o.user != "" || o.tokenFile == "" {
		return o.user, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("--slurm-rest-user: missing, and the user of this process has no name: %w", err)
	}
	return u.Username, nil
}

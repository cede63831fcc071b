package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExitStatusesAreAsDocumented: the program ends with every status of the table, and with none that the table lacks.
func TestExitStatusesAreAsDocumented(t *testing.T) {
	const tight = `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 2, "clusters": [{"name": "c", "capacity": {"cpu": 1}, "watts": {"cpu": 1}, "intensity": 1}],
 "jobs": [{"id": "a", "kind": "rigid", "arrival": 0, "deadline": 2, "length": 1, "request": {"cpu": 2}}]}`
	dir := files(t, map[string]string{"tight.json": tight, "roomy.json": strings.Replace(tight, `"cpu": 2`, `"cpu": 1`, 1), "plain": "not a program", "empty.jsonl": ""})
	lull(t, exitOK, "plan", "-f", dir+"/roomy.json", "-o", dir+"/plan.json")
	inProcess := func(args ...string) int {
		status, _, _ := runMain(args...)
		return status
	}
	process := func(args ...string) int {
		cmd := lullProcess(t, append([]string{"run", "--length", "1h", "--min-saving", "100", "--"}, args...)...)
		return endedWith(cmd.Run(), cmd)
	}
	renewed, seconds, holder := metav1.NewMicroTime(time.Now().Add(-time.Hour)), int32(15), "pod-1"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "lull-system", Name: "controller.lull.dev"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
	_, _, dead := lullOn(t, clusterOf(t, lease), "status")
	found := map[exitRow]int{}
	for row, got := range map[exitRow]int{
		{status: "0", command: "every command"}:      inProcess("version"),
		{status: "1", command: "every command"}:      inProcess("plan", "--plannr", "x"),
		{status: "1", command: "lull status"}:        exitCode(dead),
		{status: "1", command: "lull ledger verify"}: inProcess("ledger", "verify", "--export", dir+"/empty.jsonl"),
		{status: "3", command: "lull plan"}:          inProcess("plan", "-f", dir+"/tight.json"),
		{status: "3", command: "lull check"}:         inProcess("check", "-f", dir+"/tight.json", dir+"/plan.json"),
		{status: "any", command: "lull run"}:         process("sh", "-c", "exit 7"),
		{status: "126", command: "lull run"}:         process(dir + "/plain"),
		{status: "127", command: "lull run"}:         process("no-such-command"),
		{status: "128 + N", command: "lull run"}:     process("sh", "-c", "kill -KILL $$"),
	} {
		found[row] = got
	}
	numbers := map[string]int{"0": 0, "1": 1, "3": 3, "126": 126, "127": 127, "any": 7, "128 + N": 137}
	for _, r := range exitRows() {
		got, tried := found[exitRow{status: r.status, command: r.command}]
		if want := numbers[r.status]; !tried || got != want {
			t.Errorf("%s, %s: ends with %d, want %d; tried %v", r.command, r.status, got, want, tried)
		}
		delete(found, exitRow{status: r.status, command: r.command})
	}
	if len(found) > 0 {
		t.Errorf("the table lacks %v", found)
	}
	for _, args := range [][]string{{"nope"}, {"get", "pods"}, {"top", "--by", "x"}, {"explain"}, {"status", "--kubeconfig", filepath.Join(dir, "none")}, {"exit-status"}} {
		want := exitError
		if args[0] == "exit-status" {
			want = exitOK
		}
		if got := inProcess(args...); got != want {
			t.Errorf("lull %v: %d, want %d", args, got, want)
		}
	}
	page, err := os.ReadFile(filepath.Join(tree, "docs", "reference-commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Exit status")
	if lines := strings.Count(table, "\n| "); lines != len(exitRows())+1 || !slices.ContainsFunc(strings.Split(table, "\n"), func(l string) bool { return strings.HasPrefix(l, "| 3 | `lull plan` |") }) {
		t.Errorf("the page has %d rows:\n%s", lines, table)
	}
}

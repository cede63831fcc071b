package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tresWidth and gresWidth are how much is read of lists of trackable resources. What is cut is not read.
const tresWidth, gresWidth = 160, 60

// asked reads what a job asks for, or has got once it runs: bytes of memory and GPUs, over all of its nodes. tres are the columns tres-alloc,
// tres-per-job, tres-per-node and tres-per-task. tres-alloc has GPUs only if slurmdbd tracks them; the other columns say it then.
// The types are those of the
// GPUs that a job asks for by type, or has got, if slurmdbd tracks types. GPUs that were asked for by socket (--gpus-per-socket) are not known without slurmdbd.
func asked(nodes, tasks string, tres []string) (memory int64, g gpus, err error) {
	var allocated gpus
	for _, part := range whole(tres[0], tresWidth) {
		key, value, _ := strings.Cut(part, "=")
		switch kind, isGPU := strings.CutPrefix(key, "gres/gpu"); {
		case key == "mem":
			if memory, err = parseMemory(value); err != nil {
				return 0, g, err
			}
		case isGPU && (kind == "" || kind[0] == ':'):
			n, err := parseCount(value)
			if err != nil {
				return 0, g, err
			}
			if kind == "" {
				allocated.all = n
			} else {
				allocated.add(kind[1:], n)
			}
		}
	}
	n, t := multiplier(nodes), multiplier(tasks)
	for i, times := range []int{1, max(1, n), max(1, t)} {
		if each := countGPUs(whole(tres[i+1], gresWidth)); each.all > 0 {
			g = each.times(times)
			break
		}
	}
	switch {
	case allocated.all == 0 && g.all == 0:
		allocated.all = allocated.ofTypes()
		return memory, allocated, nil
	case allocated.all == 0:
		return memory, g, nil
	case len(allocated.types) == 0 && g.ofTypes() <= allocated.all: // slurmdbd tracks GPUs, and not their types
		allocated.types = g.types
	}
	return memory, allocated, nil
}

// gpus are GPUs: all of them, and those that have a type, by it.
type gpus struct {
	all   int
	types map[string]int
}

func (g *gpus) add(kind string, n int) {
	if g.types == nil {
		g.types = map[string]int{}
	}
	g.types[kind] += n
}

func (g gpus) times(n int) gpus {
	out := gpus{all: g.all * n}
	for kind, each := range g.types {
		out.add(kind, each*n)
	}
	return out
}

func (g gpus) ofTypes() (n int) {
	for _, of := range g.types {
		n += of
	}
	return n
}

// multiplier reads how many nodes or tasks a job has, the least of a range; 0 if squeue states none, or 4294967294, as it does for the tasks of a job
// that was cancelled before it started.
func multiplier(text string) int {
	least, _, _ := strings.Cut(text, "-")
	if n, err := parseCount(least); err == nil {
		return n
	}
	return 0
}

// whole splits a list. If the list is as long as its column, its last entry may be cut, and is left out.
func whole(list string, width int) []string {
	if none(list) == "" {
		return nil
	}
	parts := strings.Split(list, ",")
	if len(list) >= width {
		return parts[:len(parts)-1]
	}
	return parts
}

// mostGPUs bounds the GPUs of an entry.
const mostGPUs = 1 << 20

// countGPUs counts the GPUs of a list such as gpu:a100:4, gres:gpu:2 or gres/gpu:a100=1; an entry without a number is one.
func countGPUs(list []string) (g gpus) {
	for _, part := range list {
		words := strings.FieldsFunc(part, func(r rune) bool { return r == ':' || r == '=' || r == '/' })
		if len(words) > 1 && words[0] == "gres" {
			words = words[1:]
		}
		if len(words) == 0 || words[0] != gpu {
			continue
		}
		each := 1
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
			each, words = min(max(0, n), mostGPUs), words[:len(words)-1]
		}
		g.all += each
		if len(words) > 1 {
			g.add(words[1], each)
		}
	}
	return g
}

// plain splits a list of sinfo without what it adds in brackets, such as the sockets in gpu:4(S:0-1). If the list is as long as its column and is
// not cut in brackets, its last entry may be cut, and is left out.
func plain(list string, width int) []string {
	cut := len(list) >= width
	for {
		from := strings.IndexByte(list, '(')
		if from < 0 {
			break
		}
		length := strings.IndexByte(list[from:], ')')
		if length < 0 {
			list, cut = list[:from], false
			break
		}
		list = list[:from] + list[from+length+1:]
	}
	parts := strings.Split(list, ",")
	if cut {
		return parts[:len(parts)-1]
	}
	return parts
}

// mostCount bounds what a column states of nodes, tasks and GPUs.
const mostCount = 1 << 30

// parseCount reads a whole number; 0 if squeue states none.
func parseCount(text string) (int, error) {
	if none(text) == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostCount {
		return 0, fmt.Errorf("%w: %q; accepted: a number", ErrLine, clipped(text))
	}
	return n, nil
}

// parseMemory reads an amount of memory such as 2G, 1000M, 1.50T or 0, in bytes. A number without a unit is MiB.
func parseMemory(text string) (int64, error) {
	unit := int64(1 << 20)
	if i := strings.IndexAny(text, "KMGTP"); i >= 0 && i == len(text)-1 {
		unit = 1 << (10 * (1 + strings.IndexByte("KMGTP", text[i])))
		text = text[:i]
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v*float64(unit) <= 1<<60) {
		return 0, fmt.Errorf("%w: memory: %q; accepted: as 2G or 1000M", ErrLine, clipped(text))
	}
	return int64(v * float64(unit)), nil
}

// parseNodes reads the answer of sinfo, which has a line for each node of each partition.
func parseNodes(text, end string) (nodes []Node, bad []Bad) {
	index := map[string]int{}
	bad = rows(text, end, nodeColumns, func(f []string) error {
		if i, known := index[f[0]]; known {
			if !slices.Contains(nodes[i].Partitions, f[2]) {
				nodes[i].Partitions = append(nodes[i].Partitions, f[2])
			}
			return nil
		}
		n, err := parseNode(f)
		if err != nil {
			return err
		}
		index[f[0]] = len(nodes)
		nodes = append(nodes, n)
		return nil
	})
	return nodes, bad
}

// parseNode reads the fields of a line, in the order of nodeColumns.
func parseNode(f []string) (Node, error) {
	n := Node{Name: f[0], Partitions: []string{f[2]}}
	counts := strings.Split(f[1], "/") // allocated, idle, other, all
	if n.Name == "" || len(counts) != 4 {
		return n, fmt.Errorf("%w: CPUsState: %q", ErrLine, clipped(f[1]))
	}
	var cpus [4]int
	for i, c := range counts {
		v, err := strconv.Atoi(c)
		if err != nil || v < 0 {
			return n, fmt.Errorf("%w: CPUsState: %q", ErrLine, clipped(f[1]))
		}
		cpus[i] = v
	}
	n.CPUs, n.UsedCPUs = cpus[0]+cpus[1], cpus[0]
	mem, gres := f[3], plain(f[5], nodeColumns[5].width)
	if cpus[1] == 0 && cpus[2] > 0 { // down, drained, or draining: nothing starts there
		mem, gres = f[4], plain(f[6], nodeColumns[6].width)
	}
	if none(mem) != "" {
		v, err := parseMemory(mem)
		if err != nil {
			return n, err
		}
		n.Memory = v
	}
	if none(f[4]) != "" {
		v, err := parseMemory(f[4])
		if err != nil {
			return n, err
		}
		n.UsedMemory = v
	}
	has := countGPUs(gres)
	n.GPUs, n.GPUTypes = has.all, has.types
	n.Off = strings.ContainsAny(f[7], "~#!%") && n.CPUs > 0
	return n, nil
}

// Command bench measures kcm beside the original kube-controller-manager.
//
// Both do the same work in turns, each time on a fresh lab cluster, as processes with the same flags and
// the same loops. It says what it has measured of each, in the end in a table.
//
//   - Times are from just before the request that starts something to the watch event that shows it
//     done; nothing is polled. The watch is bench's own, so its cost is the same for both.
//
//   - CPU is user and system time of the manager's process meanwhile, and RSS its resident set then.
//
//   - Requests are those in the API server's audit log by the controller manager and the ServiceAccounts
//     of its loops, but those for the Lease. Watches are not in that log.
//
//   - kwok plays the nodes; a pod is Ready a second after it was started at the earliest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

// program is a controller manager, with the user that it is.
type program struct {
	name, path string
	user       cluster.User
}

var (
	kcm      = program{"kcm", "bin/kcm", cluster.KCM}
	original = program{"original", "bin/kube-controller-manager", cluster.Reference}
)

// phase is what is measured on a cluster, of each of the programs.
type phase struct {
	name string
	run  func(*trial)
	// once says that one round is enough, because it takes long or hardly differs.
	once     bool
	programs []program
}

var both = []program{kcm, original}

var phases = []phase{
	{"limit", limit, false, both},
	{"load", load, false, both},
	{"whole", whole, false, []program{original}},
	{"failover", failOver, false, both},
	{"namespace", deleteNamespace, false, both},
	{"gc", collect, true, both},
	{"growth", grow, true, both},
	{"quota", recount, true, both},
	{"daemons", daemons, true, both},
	{"jobs", runJobs, false, both},
	{"services", rollOutService, true, both},
	{"among", changeAmongServices, true, both},
	{"nodes", joinAndFallSilent, true, both},
	{"roles", aggregate, true, both},
	{"certificates", certify, true, both},
}

func main() {
	names := verdict.Names(phases, func(p phase) string { return p.name })
	rounds := flag.Int("rounds", 3, "how many `rounds` there are; one is enough for what takes long or hardly differs")
	only := flag.String("only", "", "measure only what matches this `regexp`: "+strings.Join(names, ", "))
	flag.Parse()
	process.Main("bench", func(ctx context.Context) error { return run(ctx, *rounds, *only) })
}

// run runs the phases that match a regular expression.
func run(ctx context.Context, rounds int, only string) error {
	matches, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	wanted := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return !matches.MatchString(p.name) })
	switch {
	case runtime.GOOS != "linux":
		return errors.New("memory and CPU time are read from /proc, so this needs Linux")
	case len(wanted) == 0:
		return fmt.Errorf("-only=%s matches no phase; see -h", only)
	}
	for _, p := range both {
		// It is in the page cache then: the first one measured is not to pay for the disk.
		version, err := exec.CommandContext(ctx, p.path, "--version").Output()
		if err != nil {
			return fmt.Errorf("%s --version: %w; 'make bench' builds what it measures", p.path, err)
		}
		fmt.Printf("%s: %s", p.name, version)
	}
	load, _ := os.ReadFile("/proc/loadavg") // some machines do not say
	fmt.Printf("%d cores; load before the first round, which should be low: %s", runtime.NumCPU(), load)
	var figures table
	defer func() { figures.print(os.Stdout) }() // what is measured is told, whatever becomes of the next phase
	for round := range rounds {
		for _, phase := range wanted {
			if phase.once && round > 0 {
				continue
			}
			programs := slices.Clone(phase.programs)
			if round%2 == 1 {
				slices.Reverse(programs)
			}
			for _, program := range programs {
				fmt.Printf("\nround %d of %d: %s, %s\n", round+1, rounds, phase.name, program.name)
				if err := try(ctx, phase.run, program, &figures); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// table has all that is known, in the order in which it was measured.
type table []*row

// row is a figure, with its values of each program.
type row struct {
	// of is what was measured, and what says which figure of it this is.
	of, what, unit string
	values         map[string][]float64
}

func (t *table) row(of, what, unit string) *row {
	i := slices.IndexFunc(*t, func(r *row) bool { return r.of == of && r.what == what })
	if i < 0 {
		i = len(*t)
		*t = append(*t, &row{of, what, unit, map[string][]float64{}})
	}
	return (*t)[i]
}

// print shows the table and what one has to know to read it.
func (t table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n\tunit\tkcm\toriginal\tkcm/original\t")
	of := ""
	for _, r := range t {
		if r.of != of {
			of = r.of
			fmt.Fprintf(w, "%s\t\t\t\t\t\n", of)
		}
		ours, us := summary(r.values[kcm.name])
		theirs, them := summary(r.values[original.name])
		ratio := ""
		if ours > 0 && theirs > 0 {
			ratio = fmt.Sprintf("%.2f", ours/theirs)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t\n", r.what, r.unit, us, them, ratio)
	}
	w.Flush()
	fmt.Fprint(out, `
Median [least–greatest] of the rounds. The original runs only the loops that kcm has, except where it says so. What
is deleted is deleted at the rate limits that both have by themselves.
`)
}

// summary returns the median of values, and that with the least and the greatest, because rounds are too few for
// an interval of confidence to have bounds. The median of an even number of values lies half-way between the two in
// the middle.
func summary(values []float64) (median float64, text string) {
	n := len(values)
	if n == 0 {
		return 0, ""
	}
	values = slices.Sorted(slices.Values(values))
	median = (values[(n-1)/2] + values[n/2]) / 2
	if n == 1 {
		return median, digits(median)
	}
	return median, fmt.Sprintf("%s [%s–%s]", digits(median), digits(values[0]), digits(values[n-1]))
}

// digits writes a number with three digits, and more only before the point: no more can be believed.
func digits(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

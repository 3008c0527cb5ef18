// Package lab is the harness of the book's labs.
//
// A lab is a Go test made of named steps:
//
//	func TestMain(m *testing.M) { lab.Main(m) }
//
//	func TestReplication(t *testing.T) {
//		l := lab.New(t, 6)
//		l.Step("A ReplicaSet of three gets three pods", func(s *lab.Step) {
//			s.Start("kcm")
//			s.Kubectl("create -f manifests/web.yaml")
//			s.Await("three pods are Ready", func(ctx context.Context) (bool, string, error) { … })
//		})
//	}
//
// New starts a cluster of the lab's own and builds the chapter's stage. Start runs
// its kcm, as a process whose log is kept; with REFERENCE=1 in the environment it
// is the original kube-controller-manager instead, so a step that holds for both
// tells the truth about Kubernetes. With CLUSTER=kind the cluster is a kind
// cluster.
//
// What is guaranteed: steps run in order, and after the first that fails none
// runs. Nothing waits without a deadline, and a wait that was in vain says what was
// seen last. A lab never touches a cluster that it has not started. When it ends,
// also by Ctrl-C, what it has started is gone.
//
// Under go test a lab is quiet. `make lab-NN` sets LAB_NARRATE=1, and the lab tells
// what it does as it goes. KEEP=1 leaves everything up at the end until Ctrl-C;
// STEP=1 waits for Enter before each step.
package lab

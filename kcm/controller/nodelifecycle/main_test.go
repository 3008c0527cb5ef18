package nodelifecycle

import (
	"testing"

	"go.uber.org/goleak"
)

// klog's flush daemon has no end. Nothing else may be left after the tests.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

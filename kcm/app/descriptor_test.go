package app

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/app/options"
)

func TestEveryControllerHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	build := func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) { return nil, nil }
	named := func(name string, aliases ...string) *ControllerDescriptor {
		return &ControllerDescriptor{name: name, aliases: aliases, account: "somebody", constructor: build}
	}
	tests := map[string]struct {
		descriptors []*ControllerDescriptor
		want        string
	}{
		"same name":      {[]*ControllerDescriptor{named("a"), named("a")}, `two controllers go by the name "a"`},
		"same alias":     {[]*ControllerDescriptor{named("a", "x"), named("b", "x")}, `two controllers go by the name "x"`},
		"alias is name":  {[]*ControllerDescriptor{named("a", "b"), named("b")}, `two controllers go by the name "b"`},
		"no name":        {[]*ControllerDescriptor{named("")}, `controller "" needs a name, an account and a constructor`},
		"no account":     {[]*ControllerDescriptor{{name: "a", constructor: build}}, `controller "a" needs a name, an account and a constructor`},
		"no constructor": {[]*ControllerDescriptor{{name: "a", account: "somebody"}}, `controller "a" needs a name, an account and a constructor`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.PanicsWithValue(t, test.want, func() { mustBeDistinct(test.descriptors) })
		})
	}
}

func TestNamesAndAliasesAreThoseOfTheOriginal(t *testing.T) {
	t.Parallel()
	for _, d := range NewControllerDescriptors() {
		known := options.ReadOriginal().Controllers
		at := slices.IndexFunc(known, func(c options.OriginalController) bool { return c.Name == d.name })
		require.GreaterOrEqual(t, at, 0, "the original has no %s", d.name)
		assert.Equal(t, known[at].Aliases, d.aliases, d.name)
		assert.Equal(t, known[at].DisabledByDefault, d.disabledByDefault, d.name)
	}
}

func TestAControllerOfTheOriginalIsEitherHereOrElsewhere(t *testing.T) {
	t.Parallel()
	here, elsewhere := KnownControllers(), names(controllersElsewhere(), func(*ControllerDescriptor) bool { return true })
	assert.Contains(t, here, "deployment-controller")
	assert.Contains(t, elsewhere, "statefulset-controller")
	var all []string
	for _, c := range options.ReadOriginal().Controllers {
		all = append(all, c.Name)
	}
	assert.ElementsMatch(t, all, append(here, elsewhere...))
}

func TestTheManagerOfACloudHasTheLoopsOfTheCloud(t *testing.T) {
	t.Parallel()
	loops := []string{"cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"}
	known := knownControllers("cloud-controller-manager")
	assert.Equal(t, loops, known.Names)
	assert.Equal(t, loops, known.Accepted)
	assert.Equal(t, "cloud-node-lifecycle-controller", known.Aliases["cloud-node-lifecycle"])
	assert.NotContains(t, known.Aliases, "deployment")
	assert.Len(t, descriptorsOf("cloud-controller-manager"), 3)
	assert.Equal(t, KnownControllers(), names(descriptorsOf("kube-controller-manager"), func(*ControllerDescriptor) bool { return true }))
}

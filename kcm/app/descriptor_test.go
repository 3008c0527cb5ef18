package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryControllerHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	build := func(context.Context, *ControllerContext) (*Controller, error) { return nil, nil }
	tests := map[string]struct {
		descriptors []*ControllerDescriptor
		want        string
	}{
		"same name":      {[]*ControllerDescriptor{{name: "a", constructor: build}, {name: "a", constructor: build}}, `two controllers go by the name "a"`},
		"same alias":     {[]*ControllerDescriptor{{name: "a", aliases: []string{"x"}, constructor: build}, {name: "b", aliases: []string{"x"}, constructor: build}}, `two controllers go by the name "x"`},
		"alias is name":  {[]*ControllerDescriptor{{name: "a", aliases: []string{"b"}, constructor: build}, {name: "b", constructor: build}}, `two controllers go by the name "b"`},
		"no name":        {[]*ControllerDescriptor{{constructor: build}}, `controller "" needs a name and a constructor`},
		"no constructor": {[]*ControllerDescriptor{{name: "a"}}, `controller "a" needs a name and a constructor`},
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
	assert.Equal(t, []string{
		"deployment-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
	}, KnownControllers())
	assert.Empty(t, ControllersDisabledByDefault())
	assert.Equal(t, map[string]string{
		"deployment":             "deployment-controller",
		"replicaset":             "replicaset-controller",
		"replicationcontroller":  "replicationcontroller-controller",
		"root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
		"serviceaccount":         "serviceaccount-controller",
		"serviceaccount-token":   "serviceaccount-token-controller",
	}, ControllerAliases())
}

func TestNoControllerIsBothHereAndElsewhere(t *testing.T) {
	t.Parallel()
	build := func(context.Context, *ControllerContext) (*Controller, error) { return nil, nil }
	all := NewControllerDescriptors()
	for _, d := range controllersElsewhere {
		all = append(all, &ControllerDescriptor{name: d.name, aliases: d.aliases, constructor: build})
	}
	assert.NotPanics(t, func() { mustBeDistinct(all) })
}

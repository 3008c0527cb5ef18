package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/configz"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func TestTheConfigurationOfACloudsManagerIsOfItsOwnKind(t *testing.T) {
	c := replicaA(t)
	c.Name = config.CloudManagerName
	c.ComponentConfig.KubeCloudShared.CloudProvider.Name = "lab"
	require.NoError(t, showConfig(c))
	t.Cleanup(func() { configz.Delete("cloudcontrollermanager.config.k8s.io") })

	served := mux.NewPathRecorderMux("test")
	configz.InstallHandler(served)
	answer := httptest.NewRecorder()
	served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/configz", nil))
	shown := map[string]struct {
		APIVersion, Kind string
		KubeCloudShared  struct{ CloudProvider struct{ Name string } }
	}{}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &shown), answer.Body)
	own, ok := shown["cloudcontrollermanager.config.k8s.io"]
	require.True(t, ok, "%s", answer.Body)
	assert.Equal(t, "cloudcontrollermanager.config.k8s.io/v1alpha1", own.APIVersion)
	assert.Equal(t, "CloudControllerManagerConfiguration", own.Kind)
	assert.Equal(t, "lab", own.KubeCloudShared.CloudProvider.Name)
}

package replication

import (
	"encoding/json"
	"net/http"

	"k8s.io/klog/v2"
)

// DebuggingHandler shows as JSON which sets wait for pods that they have asked
// for, and since when. The manager serves it under
// /debug/controllers/replicaset-controller. A set that stays in the list for
// seconds is not slow by itself: its cache is behind.
func (c *Controller) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		shown := map[string]any{"expectations": c.expectations.Pending()}
		if err := json.NewEncoder(w).Encode(shown); err != nil {
			klog.FromContext(r.Context()).V(2).Info("Could not show expectations", "err", err)
		}
	})
}

# Brings about the incident at the end of part two. Source it in the root of the repository, in a shell that
# `eval "$(make env)"` has made ready, and read it when you know the cause: . labs/15-jobs/incident.sh

# manager KUBECONFIG starts the finished kcm. It tells what its syncs see at https://127.0.0.1:10321/debug/trace.
manager() {
	bin/kcm --kubeconfig "$1" --leader-elect=false --use-service-account-credentials \
		--service-account-private-key-file "$LAB/pki/service-account.key" --root-ca-file "$LAB/pki/ca.crt" \
		--bind-address 127.0.0.1 --secure-port 10321 --authorization-always-allow-paths=/debug/trace 2>> /tmp/kcm-15-incident.log &
	manager=$!
}

go build -o /tmp/late-15 ./labs/proxy/late
rm -f /tmp/late-15.kubeconfig
/tmp/late-15 "$LAB/kubeconfig/kcm.kubeconfig" /tmp/late-15.kubeconfig pods &
late=$!
until [ -s /tmp/late-15.kubeconfig ]; do sleep 0.1; done
manager /tmp/late-15.kubeconfig

# All is well: four pods, counted, in the slice of their Service.
{
	kubectl create namespace shop
	kubectl wait --for=create serviceaccount/default --namespace shop --timeout=60s
	kubectl config set-context --current --namespace shop
	kubectl create -f labs/15-jobs/manifests/incident.yaml
	kubectl rollout status deployment/shop --timeout=60s
	kubectl wait resourcequota/limit --for=jsonpath='{.status.used.pods}'=4 --timeout=60s
	until [ "$(kubectl get endpointslices -o go-template='{{range .items}}{{range .endpoints}}{{.conditions.ready}}{{end}}{{end}}')" = truetruetruetrue ]; do sleep 0.1; done
} > /dev/null

# From now on the manager hears nothing more of pods.
kill -USR1 $late

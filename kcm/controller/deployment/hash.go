package deployment

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// podTemplateHash is the value of the pod-template-hash label and the end of
// a ReplicaSet's name. It is 32 bits wide, so two templates of one deployment
// may share a hash; the deployment's collision count then gives the second
// another one.
//
// The hash is taken over a dump of the Go value, fields without a value
// included. It has to be the same in every program that may run this loop, but
// it may change with the Kubernetes version. So it only makes names: whether
// a ReplicaSet has a certain template is found out by comparing templates.
func podTemplateHash(template corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	hash.Write([]byte(dump.ForHash(template)))
	if collisions != nil {
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(*collisions)))
	}
	return rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
}

package controller

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// PodTemplateHash is what tells the versions of a workload apart in names and
// labels: the value of pod-template-hash and the end of a ReplicaSet's name, or
// the value of controller-revision-hash and the end of a ControllerRevision's.
// It is 32 bits wide, so two templates of one owner may share a hash; the
// owner's status.collisionCount, nil for none, then gives the second another one.
//
// The hash is taken over a dump of the Go value, fields without a value
// included. It has to be the same in every program that may run this loop, but
// it may change with the Kubernetes version. So it only makes names: whether
// an object has a certain template is found out by comparing templates.
func PodTemplateHash(template corev1.PodTemplateSpec, collisions *int32) string {
	hash := fnv.New32a()
	hash.Write([]byte(dump.ForHash(template)))
	if collisions != nil {
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(*collisions)))
	}
	return rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
}

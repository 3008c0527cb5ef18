package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// tally counts the objects of one resource that are charged alike. Most objects
// of a namespace come from a few templates, so that a sum over thousands of them
// is one over a few accounts. It is not safe for concurrent use.
type tally struct {
	objects  map[cache.ObjectName]*account
	accounts map[string]map[string]*account // by namespace and key
}

// account has the number of objects of a namespace that have one charge.
type account struct {
	charge
	key     string
	objects int64
}

func newTally() *tally {
	return &tally{objects: map[cache.ObjectName]*account{}, accounts: map[string]map[string]*account{}}
}

// put notes what an object is charged from now on. It tells whether the object was
// known, and whether it is charged otherwise than before.
func (t *tally) put(object cache.ObjectName, c charge) (known, changed bool) {
	key := c.key()
	before := t.objects[object]
	if before != nil && before.key == key {
		return true, false
	}
	t.remove(object)
	of := t.accounts[object.Namespace]
	if of == nil {
		of = map[string]*account{}
		t.accounts[object.Namespace] = of
	}
	a := of[key]
	if a == nil {
		a = &account{charge: c, key: key}
		of[key] = a
	}
	a.objects++
	t.objects[object] = a
	return before != nil, true
}

// charged returns the charge of an object, which is empty for one that is not
// there.
func (t *tally) charged(object cache.ObjectName) charge {
	if a := t.objects[object]; a != nil {
		return a.charge
	}
	return charge{}
}

// remove notes that an object is charged no more, and tells whether it was known.
func (t *tally) remove(object cache.ObjectName) bool {
	a := t.objects[object]
	if a == nil {
		return false
	}
	delete(t.objects, object)
	a.objects--
	if of := t.accounts[object.Namespace]; a.objects == 0 {
		delete(of, a.key)
		if len(of) == 0 {
			delete(t.accounts, object.Namespace)
		}
	}
	return true
}

// add adds to each quantity in sum what the objects that a quota counts use under
// that name.
func (t *tally) add(sum corev1.ResourceList, quota *corev1.ResourceQuota) {
	asked := selectors(&quota.Spec)
	for _, a := range t.accounts[quota.Namespace] {
		if !a.scopes.match(asked) {
			continue
		}
		for name, total := range sum {
			if each, ok := a.used[name]; ok {
				each = each.DeepCopy()
				each.Mul(a.objects)
				total.Add(each)
				sum[name] = total
			}
		}
	}
}

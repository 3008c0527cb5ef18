package endpointslice

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group is what is to be packed together: endpoints of one address type that
// have the same ports.
type Group struct {
	// Template is a slice without a name and without endpoints, as a new one of
	// the group begins. It has one owner. Its annotations are those that slices
	// must have, and nil if that does not matter.
	Template *discoveryv1.EndpointSlice
	// Existing are the slices of the group. They may be the cache's.
	Existing []*discoveryv1.EndpointSlice
	// Wanted are the endpoints that the slices are to have. Of one that is there
	// twice the last counts.
	Wanted []discoveryv1.Endpoint
}

// Plan is what is to be written. No slice of it is the cache's but those of
// Unchanged and Delete.
type Plan struct {
	Create, Update, Unchanged, Delete []*discoveryv1.EndpointSlice
	// Waits says that there is more to be written, which can wait.
	Waits bool
	// Added and Removed count endpoints.
	Added, Removed int
}

// Pack finds a place for each endpoint that is wanted. Once the plan is carried
// out, each is in exactly one slice as it is now, no slice has grown beyond limit
// endpoints, and none is empty.
//
// It writes few slices. Room that is left in a slice is no reason to write it
// (https://kep.k8s.io/752).
func (g Group) Pack(limit int) Plan {
	var plan Plan
	kept, fresh := g.keep(&plan)
	plan.Added = len(fresh)
	slices.SortStableFunc(kept, func(a, b keptSlice) int {
		return len(b.endpoints) - len(a.endpoints)
	})
	for i := range kept {
		if room := limit - len(kept[i].endpoints); kept[i].changed && room > 0 {
			fresh = kept[i].take(fresh, min(room, len(fresh)))
		}
	}
	for len(fresh) > limit {
		fresh = g.create(&plan, fresh, limit)
	}
	if best := bestFit(kept, len(fresh), limit); best != nil {
		fresh = best.take(fresh, len(fresh))
	}
	if len(fresh) > 0 {
		g.create(&plan, fresh, len(fresh))
	}
	for _, k := range kept {
		g.sort(&plan, k)
	}
	return plan
}

// keptSlice is an existing slice and what is to be in it.
type keptSlice struct {
	*discoveryv1.EndpointSlice
	endpoints []discoveryv1.Endpoint
	changed   bool
}

// take moves the first n of the endpoints into the slice, which counts as changed
// unless n is 0, and returns the others.
func (k *keptSlice) take(fresh []discoveryv1.Endpoint, n int) []discoveryv1.Endpoint {
	k.endpoints = append(k.endpoints, fresh[:n]...)
	k.changed = k.changed || n > 0
	return fresh[n:]
}

// keep returns the existing slices with those endpoints that stay there, as they
// are now, and the wanted endpoints that are in none. It counts in the plan those
// that have gone.
func (g Group) keep(plan *Plan) (kept []keptSlice, fresh []discoveryv1.Endpoint) {
	missing := make(map[identity]discoveryv1.Endpoint, len(g.Wanted))
	for _, endpoint := range g.Wanted {
		missing[identify(endpoint)] = endpoint
	}
	for _, slice := range g.Existing {
		k := keptSlice{EndpointSlice: slice, changed: len(slice.Endpoints) == 0 || !g.isDressed(slice)}
		for _, old := range slice.Endpoints {
			id := identify(old)
			wanted, ok := missing[id]
			if !ok {
				k.changed = true // it has gone, or is in another slice
				plan.Removed++
				continue
			}
			k.changed = k.changed || !tellsTheSame(old, wanted)
			k.endpoints = append(k.endpoints, wanted)
			delete(missing, id)
		}
		kept = append(kept, k)
	}
	for _, endpoint := range g.Wanted {
		id := identify(endpoint)
		if wanted, ok := missing[id]; ok {
			fresh = append(fresh, wanted)
			delete(missing, id)
		}
	}
	return kept, fresh
}

// bestFit returns an unchanged slice that n more endpoints fit into, or nil.
func bestFit(kept []keptSlice, n, limit int) *keptSlice {
	var best *keptSlice
	for i := range kept {
		k := &kept[i]
		if k.changed || len(k.endpoints)+n > limit {
			continue
		}
		if best == nil || len(k.endpoints) > len(best.endpoints) {
			best = k
		}
	}
	return best
}

// create has a new slice made of the first n endpoints, and returns the others.
func (g Group) create(plan *Plan, fresh []discoveryv1.Endpoint, n int) []discoveryv1.Endpoint {
	slice := g.Template.DeepCopy()
	slice.Endpoints = slices.Clone(fresh[:n])
	plan.Create = append(plan.Create, slice)
	return fresh[n:]
}

// sort says what becomes of a slice that was there before: without endpoints it
// is deleted, changed it is updated, and otherwise it stays as it is.
func (g Group) sort(plan *Plan, k keptSlice) {
	switch {
	case len(k.endpoints) == 0:
		plan.Delete = append(plan.Delete, k.EndpointSlice)
	case k.changed:
		plan.Update = append(plan.Update, g.Rewrite(k.EndpointSlice, k.endpoints))
	default:
		plan.Unchanged = append(plan.Unchanged, k.EndpointSlice)
	}
}

// Rewrite returns the slice with other endpoints, and with the ports, labels and
// annotations of the group. What somebody has added to its owners stays, unless
// it has another owner altogether.
func (g Group) Rewrite(slice *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	meta := slice.ObjectMeta.DeepCopy()
	meta.Labels = maps.Clone(g.Template.Labels)
	if g.Template.Annotations != nil {
		meta.Annotations = maps.Clone(g.Template.Annotations)
	}
	if !g.owns(slice) {
		meta.OwnerReferences = slices.Clone(g.Template.OwnerReferences)
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: *meta, AddressType: slice.AddressType, Ports: g.Template.Ports, Endpoints: endpoints,
	}
}

// isDressed tells whether a slice has the labels, annotations and owner of its
// group.
func (g Group) isDressed(slice *discoveryv1.EndpointSlice) bool {
	return g.owns(slice) && maps.Equal(slice.Labels, g.Template.Labels) &&
		(g.Template.Annotations == nil || maps.Equal(slice.Annotations, g.Template.Annotations))
}

func (g Group) owns(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == g.Template.OwnerReferences[0].UID
	})
}

// Recycle has slices that are to be created take the place of others of their
// address type that are to be deleted: one write instead of two.
func (p *Plan) Recycle() {
	var create []*discoveryv1.EndpointSlice
	for _, slice := range p.Create {
		i := slices.IndexFunc(p.Delete, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == slice.AddressType })
		if i < 0 {
			create = append(create, slice)
			continue
		}
		p.Update = append(p.Update, Group{Template: slice}.Rewrite(p.Delete[i], slice.Endpoints))
		p.Delete = slices.Delete(p.Delete, i, i+1)
	}
	p.Create = create
}

// Add appends another plan.
func (p *Plan) Add(q Plan) {
	p.Create = append(p.Create, q.Create...)
	p.Update = append(p.Update, q.Update...)
	p.Unchanged = append(p.Unchanged, q.Unchanged...)
	p.Delete = append(p.Delete, q.Delete...)
	p.Waits = p.Waits || q.Waits
	p.Added += q.Added
	p.Removed += q.Removed
}

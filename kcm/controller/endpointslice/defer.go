package endpointslice

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// PackUrgent is [Group.Pack] for what cannot wait. Carries tells which endpoints
// carry traffic, and a change can wait if it is of an endpoint that carries none,
// before and after.
//
// A slice of which all changes can wait stays as it is. In any other all are made,
// and new endpoints that carry no traffic come in where there is room: it is
// written anyway. The first slice of a group does not wait.
func (g Group) PackUrgent(carries func(discoveryv1.Endpoint) bool, limit int) Plan {
	if len(g.Existing) == 0 {
		return g.Pack(limit)
	}
	urgent, idle, waits := g.urgent(carries)
	plan := urgent.Pack(limit)
	for _, slice := range slices.Concat(plan.Update, plan.Create) {
		n := min(max(limit-len(slice.Endpoints), 0), len(idle))
		slice.Endpoints = append(slice.Endpoints, idle[:n]...)
		plan.Added += n
		idle = idle[n:]
	}
	plan.Waits = waits || len(idle) > 0
	return plan
}

// urgent returns the group as if what can wait had not happened yet, the new
// endpoints that carry no traffic, and whether anything else waits.
func (g Group) urgent(carries func(discoveryv1.Endpoint) bool) (urgent Group, idle []discoveryv1.Endpoint, waits bool) {
	staying, isPlaced := g.staying(carries)
	urgent = Group{Template: g.Template, Existing: g.Existing}
	gone := maps.Clone(staying)
	for _, endpoint := range g.Wanted {
		id := identify(endpoint)
		delete(gone, id)
		if old, ok := staying[id]; ok {
			waits = waits || !tellsTheSame(old, endpoint)
			endpoint = old
		}
		if isPlaced[id] || carries(endpoint) {
			urgent.Wanted = append(urgent.Wanted, endpoint)
		} else {
			idle = append(idle, endpoint)
		}
	}
	urgent.Wanted = slices.AppendSeq(urgent.Wanted, maps.Values(gone))
	return urgent, idle, waits || len(gone) > 0
}

// staying returns the endpoints of the slices of which all changes can wait, and
// which endpoints are in any slice.
//
// An address is not left with an endpoint that has gone if another that carries
// traffic has it now: who finds an address twice may believe the wrong one.
func (g Group) staying(carries func(discoveryv1.Endpoint) bool) (staying map[identity]discoveryv1.Endpoint, isPlaced map[identity]bool) {
	wanted, busy := map[identity]discoveryv1.Endpoint{}, map[string]bool{}
	for _, endpoint := range g.Wanted {
		id := identify(endpoint)
		wanted[id] = endpoint
		busy[id.addresses] = busy[id.addresses] || carries(endpoint)
	}
	staying, isPlaced = map[identity]discoveryv1.Endpoint{}, map[identity]bool{}
	for _, slice := range g.Existing {
		canWait := g.isDressed(slice) && !slices.ContainsFunc(slice.Endpoints, func(old discoveryv1.Endpoint) bool {
			id := identify(old)
			endpoint, ok := wanted[id]
			isSame := ok && tellsTheSame(old, endpoint)
			return !isSame && (carries(old) || busy[id.addresses])
		})
		for _, old := range slice.Endpoints {
			isPlaced[identify(old)] = true
			if canWait {
				staying[identify(old)] = old
			}
		}
	}
	return staying, isPlaced
}

package controller

import "k8s.io/apimachinery/pkg/api/validate/content"

// CanBeName tells whether an object can have a name. What another object's content
// names may be any text, and not every client refuses to take "../x" for a part of
// the path of a URL. The API server has no object whose name contains / or %, or is
// empty or of one or two dots.
func CanBeName(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }

module oracle

go 1.25

require (
	k8s.io/apimachinery v0.35.4
	k8s.io/apiserver v0.35.4
)

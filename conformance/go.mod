module rdd/conformance

go 1.25

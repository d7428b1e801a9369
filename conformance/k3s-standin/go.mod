module rdd.example.com/k3s-standin

go 1.25

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"
)

// hooks is a server of admission webhooks. What it answers depends only on the path.
type hooks struct {
	address string
	bundle  string
	server  *http.Server
}

// review is as much of an AdmissionReview as is needed here.
type review struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Request    *request       `json:"request,omitempty"`
	Response   map[string]any `json:"response,omitempty"`
}

type request struct {
	UID       string `json:"uid"`
	Operation string `json:"operation"`
	Name      string `json:"name"`
	DryRun    bool   `json:"dryRun"`
}

func startHooks() (*hooks, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*certificate}})
	if err != nil {
		return nil, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	started := &hooks{
		address: listener.Addr().String(),
		bundle:  base64.StdEncoding.EncodeToString(encoded),
		server:  &http.Server{Handler: http.HandlerFunc(answerReview)},
	}
	go func() { _ = started.server.Serve(listener) }()
	return started, nil
}

func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}, nil
}

// answerReview answers the way that the path names.
func answerReview(writer http.ResponseWriter, incoming *http.Request) {
	var asked review
	if err := json.NewDecoder(incoming.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(writer, "no review", http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": asked.Request.UID, "allowed": true}
	answer := review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: response}
	refuse := func(status map[string]any) { response["allowed"], response["status"] = false, status }
	patch := func(operations string) {
		response["patchType"] = "JSONPatch"
		response["patch"] = base64.StdEncoding.EncodeToString([]byte(operations))
	}
	switch incoming.URL.Path {
	case "/deny":
		refuse(map[string]any{"message": fmt.Sprintf("%s of %s is not wanted", asked.Request.Operation, asked.Request.Name)})
	case "/deny-with-code":
		refuse(map[string]any{"message": "too blue", "code": 418, "reason": "Teapot"})
	case "/deny-without-words":
		response["allowed"] = false
	case "/deny-with-a-reason":
		refuse(map[string]any{"reason": "NotFound"})
	case "/deny-with-success":
		refuse(map[string]any{"status": "Success", "code": 200})
	case "/warn":
		response["warnings"] = []string{"mind the step", "and the \"door\""}
	case "/warn-and-deny":
		response["warnings"] = []string{"mind the step"}
		refuse(map[string]any{"message": "it was minded"})
	case "/wrong-uid":
		response["uid"] = "33333333-3333-3333-3333-333333333333"
	case "/no-response":
		answer.Response = nil
	case "/wrong-kind":
		answer.Kind = "AdmissionOpinion"
	case "/wrong-version":
		answer.APIVersion = "admission.k8s.io/v9"
	case "/no-json":
		_, _ = writer.Write([]byte("all is well"))
		return
	case "/broken":
		http.Error(writer, "out of paint", http.StatusInternalServerError)
		return
	case "/slow":
		select {
		case <-incoming.Context().Done():
		case <-time.After(10 * time.Second):
		}
		return
	case "/label":
		patch(`[{"op":"add","path":"/metadata/labels/painted","value":"yes"}]`)
	case "/data":
		patch(`[{"op":"add","path":"/data","value":{"by":"hook"}}]`)
	case "/patch-fails":
		patch(`[{"op":"remove","path":"/data/none"}]`)
	case "/patch-is-no-patch":
		patch(`{"op":"remove"}`)
	case "/patch-to-nonsense":
		patch(`[{"op":"add","path":"/data","value":5}]`)
	case "/patch-to-invalid":
		patch(`[{"op":"add","path":"/data","value":{"a b":"c"}}]`)
	case "/patch-of-no-type":
		response["patch"] = base64.StdEncoding.EncodeToString([]byte(`[]`))
	case "/patch-of-another-type":
		patch(`[]`)
		response["patchType"] = "Paint"
	}
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(answer)
}

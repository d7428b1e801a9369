package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rdd/conformance/internal/golden"
)

const (
	// A question of any kind is answered within this time, or has no answer.
	patience = 30 * time.Second
	// A new namespace is furnished within this time.
	settling = 5 * time.Second
	// How often `until` asks again.
	interval = 50 * time.Millisecond
)

// A client asks questions of one server.
type client struct {
	server string
	tokens map[string]string
	http   *http.Client
	hooks  *hooks
}

// raw is an answer as it came.
type raw struct {
	code   int
	header http.Header
	body   []byte
	err    error
}

func newClient(server, authority, token, userToken string) (*client, error) {
	certificates, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
	}
	hooks, err := startHooks()
	if err != nil {
		return nil, err
	}
	return &client{
		hooks:  hooks,
		server: strings.TrimSuffix(server, "/"),
		tokens: map[string]string{"admin": token, "user": userToken},
		http: &http.Client{
			Transport:     transport,
			Timeout:       patience,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// run asks all questions of a script, in order, after its namespace was made anew.
func (c *client) run(script script) []golden.Answer {
	state := newState(c.server, "mirror-"+script.name)
	state.kept["hook"], state.kept["bundle"] = "https://"+c.hooks.address, c.hooks.bundle
	state.aliases[c.hooks.address] = "<hook>"
	state.aliases[c.hooks.bundle] = "<bundle>"
	c.prepare(script, state)
	var answers []golden.Answer
	for _, asked := range script.questions {
		answered := c.ask(asked, state)
		if !asked.quiet {
			answers = append(answers, answered)
		}
	}
	for _, path := range paths(script, state) {
		c.send(question{method: "DELETE", path: path, as: "admin"}, state)
	}
	return answers
}

func (c *client) prepare(script script, state *state) {
	c.remove(script, state)
	namespace := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + state.namespace + `"}}`
	c.send(question{method: "POST", path: "/api/v1/namespaces", body: namespace, as: "admin"}, state)
	// What every namespace gets: lists count it, so it must be there first.
	for _, path := range []string{"configmaps/kube-root-ca.crt", "serviceaccounts/default"} {
		asked := question{method: "GET", path: "/api/v1/namespaces/" + state.namespace + "/" + path, as: "admin"}
		deadline := time.Now().Add(settling)
		for c.send(asked, state).code != http.StatusOK && time.Now().Before(deadline) {
			time.Sleep(interval)
		}
	}
}

// paths are those of everything a script leaves behind.
func paths(script script, state *state) []string {
	return append([]string{"/api/v1/namespaces/" + state.namespace}, script.clean...)
}

// remove takes away what an earlier run left, and waits until it is gone.
func (c *client) remove(script script, state *state) {
	for _, path := range paths(script, state) {
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			got := c.send(question{method: "DELETE", path: path, as: "admin"}, state)
			if got.code == http.StatusNotFound || got.err != nil {
				break
			}
			time.Sleep(interval)
		}
	}
}

func (c *client) ask(asked question, state *state) golden.Answer {
	deadline := time.Now().Add(patience)
	got := c.send(asked, state)
	for asked.until != "" && !asked.holds(got) && time.Now().Before(deadline) {
		time.Sleep(interval)
		got = c.send(asked, state)
	}
	answered := golden.Answer{Name: asked.name, Request: asked.method + " " + state.fill(asked.path)}
	if got.err != nil {
		answered.Text = "no answer: " + state.text(got.err.Error()) + "\n"
		return answered
	}
	values, isJSON := decodeAll(got.body)
	if isJSON && len(values) > 0 {
		state.remember(asked, values[0])
	}
	answered.Text = render(asked, got, values, isJSON, state)
	return answered
}

func (asked question) holds(got raw) bool {
	if code, found := strings.CutPrefix(asked.until, "status "); found {
		return strconv.Itoa(got.code) == code
	}
	if condition, found := strings.CutPrefix(asked.until, "condition "); found {
		values, isJSON := decodeAll(got.body)
		if !isJSON {
			return false
		}
		status, _ := lookUp(values[0], ".status.conditions[type="+condition+"].status")
		return status == "True"
	}
	if text, found := strings.CutPrefix(asked.until, "not "); found {
		return !bytes.Contains(got.body, []byte(text))
	}
	return bytes.Contains(got.body, []byte(asked.until))
}

func (c *client) send(asked question, state *state) raw {
	var body io.Reader
	if asked.body != "" {
		body = strings.NewReader(expand(state.fill(asked.body)))
	}
	request, err := http.NewRequest(asked.method, c.server+expand(state.fill(asked.path)), body)
	if err != nil {
		return raw{err: err}
	}
	request.Header.Set("User-Agent", "mirror/1.0")
	request.Header.Set("Accept", "application/json")
	if token := c.tokens[asked.as]; token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if asked.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range asked.headers {
		request.Header.Set(header[0], state.fill(header[1]))
		if header[1] == "(none)" {
			request.Header.Del(header[0])
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return raw{err: err}
	}
	defer response.Body.Close()
	got := raw{code: response.StatusCode, header: response.Header}
	if asked.events > 0 && response.StatusCode == http.StatusOK {
		got.body = readEvents(response.Body, asked.events)
		return got
	}
	got.body, got.err = readAll(response)
	return got
}

// readAll reads a body, unpacked if it is packed.
func readAll(response *http.Response) ([]byte, error) {
	if response.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(response.Body)
	}
	unpacked, err := gzip.NewReader(response.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

// readEvents reads this many lines of a stream, or what there is until it ends.
func readEvents(stream io.Reader, count int) []byte {
	var events bytes.Buffer
	reader := bufio.NewReader(stream)
	for range count {
		line, err := reader.ReadBytes('\n')
		events.Write(line)
		if err != nil {
			break
		}
	}
	return events.Bytes()
}

var repeated = regexp.MustCompile(`\{\{repeat (\d+) (.*?)\}\}`)

// expand replaces {{repeat N text}} by N times the text, for what is too long to write down.
func expand(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		parts := repeated.FindStringSubmatch(found)
		count, _ := strconv.Atoi(parts[1])
		return strings.Repeat(parts[2], count)
	})
}

// decodeAll reads one or more JSON documents, with numbers as they are written.
func decodeAll(body []byte) ([]any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var values []any
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			return values, len(values) > 0
		}
		if err != nil {
			return nil, false
		}
		values = append(values, value)
	}
}

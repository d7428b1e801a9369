// Asks upstream's own functions the questions of ../vectors.json and writes their answers, which our tests compare with.
package main

import (
	"encoding/json"
	"fmt"
	av "k8s.io/apimachinery/pkg/api/validation"
	pv "k8s.io/apimachinery/pkg/api/validation/path"
	mi "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	mis "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	iv "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1v "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"time"
)

type M = map[string]interface{}

func errsOf(l field.ErrorList) []string {
	r := []string{}
	for _, e := range l {
		r = append(r, e.Error())
	}
	return r
}
func nn(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
func main() {
	out := M{}
	L := []M{}
	for _, s := range []string{
		"", "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a in (c,b)", "a notin (b)", "a in ()", "a in (,)",
		"a in (b,,c)", "a in (b,)", "a in (,b)", "a>1", "a<x", "a=", "a=,b", "a b", "a in b", "a in (b", "a in (",
		"a in", "a in (b c)", "=", "a,", "a,,b", ",a", "!", "! a", "a!", "a=b=c", "a===b", "x in (in,notin)",
		"in in (a)", "in", "notin", "a=in", "a=b c", "!a=b", "a/b/c=d", "-a", "a=-b", "A.b/c=d", "/c=d", "c/=d",
		"a in (b=c)", "a=(b)", "z,a=1,m!=2", "a>", "a>1x", "a in (-b,c-)", "a ! b", "a~b", "a=b,", " a = b , c ",
		"!!a", "a=!b", "a in (!b)", "a)(b", "a=\x00b", "a\x00=b", "ü=b", "a=ü", "a in (b,b)", "a in (=)", "a in (b,=)",
		"a\t=\nb", "a<5,a>3", "!a,b", "b,!a", "a>>1", "a!b", "(a)", "a in (b))", "a notin b,c",
		strings.Repeat("k", 64) + "=v", "k=" + strings.Repeat("v", 64), "a in (,,)", "a<=5", "a=>5",
	} {
		sel, err := labels.Parse(s)
		if err != nil {
			L = append(L, M{"in": s, "error": err.Error()})
		} else {
			L = append(L, M{"in": s, "ok": sel.String()})
		}
	}
	out["labels"] = L
	L = []M{}
	for _, s := range []string{
		"", "a=b", "a==b", "a!=b", "a=b,c!=d", "c=d,a=b", "a", "a=b\\,c", "a=b\\=c", "a=b=c", "a=b\\", "a=b\\x",
		"a=,b=", "=a", "a!b", "a=b,,", "metadata.name=x,metadata.namespace=y", "a=b\\\\", "a!==b", "a===b", "a=ü",
		"a=\\ü", ",", "a!",
	} {
		sel, err := fields.ParseSelector(s)
		if err != nil {
			L = append(L, M{"in": s, "error": err.Error()})
		} else {
			L = append(L, M{"in": s, "ok": sel.String()})
		}
	}
	out["fields"] = L
	L = []M{}
	for _, ms := range []int64{-2000, -1999, -1000, -1, 0, 500, 1000, 119999, 120000, 121000, 599000, 600000, 10799000, 10800000, 10860000, 28799000, 28800000, 172799000, 172800000, 176400000, 691199000, 691200000, 63071999000, 63072000000, 63158400000, 252287999000, 252288000000, 9000000000000} {
		L = append(L, M{"ms": ms, "ok": duration.HumanDuration(time.Duration(ms) * time.Millisecond)})
	}
	out["durations"] = L
	L = []M{}
	for _, s := range []string{
		"2026-11-15T10:48:32Z", "2026-11-15T10:48:32.123456Z", "2026-11-15T10:48:32.123456789Z",
		"2026-11-15T10:48:32.1234567891234Z", "2026-11-15T10:48:32.123456-07:30", "2026-11-15T10:48:32+02:00",
		"2026-11-15T10:48:32", "x", "", "2026-13-15T10:48:32Z", "2026-00-15T10:48:32Z", "2026-02-30T10:48:32Z",
		"2024-02-29T10:48:32Z", "2023-02-29T10:48:32.000000Z", "1900-02-29T10:48:32Z", "2026-11-15T24:48:32Z",
		"2026-11-15 10:48:32Z", "2026-11-15T10:48:32Zx", "2026-11-15T10:48:60Z", "1969-12-31T23:59:59Z",
		"1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z", "2026-1-15T10:48:32Z",
		"2026-11-15T10:48:32+25:00", "2026-11-15T10:48:32+24:60", "2026-11-15T10:48:32+23:61", "2026-11-15T10:48:32.Z",
		"2026-11-15T1:48:32Z", "2026-11-15T:48:32Z", "2026-11-15T10:48:32+0200", "2026-11-15T10:60:32Z",
		"2026-11-00T10:48:32Z", "2026-11-15T10:48:32,5Z", "2026-11-15T10:48:3Z", "2026-11-15T10:4", "20261115",
		"2026-11-15T10:48:32z", "2026-11-15T10:48:32.12345Z", "2026-11-15T10:48:32.1234567Z",
		"2026-11-15T10:48:32.12345ü", "2026-11-15T10:48:32.5", "+2026-11-15T10:48:32Z", "-026-11-15T10:48:32Z",
		"2026-11-15T100:48:32Z",
	} {
		row := M{"in": s}
		q, _ := json.Marshal(s)
		var t metav1.Time
		if err := t.UnmarshalJSON(q); err != nil {
			row["time"] = M{"error": err.Error()}
		} else {
			row["time"] = M{"out": t.UTC().Format(time.RFC3339), "seconds": t.Unix()}
		}
		var m metav1.MicroTime
		if err := m.UnmarshalJSON(q); err != nil {
			row["micro"] = M{"error": err.Error()}
		} else {
			row["micro"] = M{"out": m.UTC().Format(metav1.RFC3339Micro), "seconds": m.Unix()}
		}
		L = append(L, row)
	}
	out["times"] = L
	L = []M{}
	for _, s := range []string{
		"", "a", "a-", "-a", "a.b", "a..b", ".a", "a.", "A", "a_b", "a/b", "a/b/c", "/a", "a/", "a%b", ".", "..",
		"...", "1", "1-a", "a-1", "-", "--", "ab-", "a.-", "example.com/My_Name", "Example.com/x", "a b", "ü", "a\n",
		"aü-", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254),
		strings.Repeat("a", 63) + "-", strings.Repeat("a", 64) + "-", strings.Repeat("a", 254) + "/b",
		"p/" + strings.Repeat("b", 64), "MyValue", "my_value", "x/-y", "a/%", "_",
	} {
		L = append(L, M{"name": s, "subdomain": nn(av.NameIsDNSSubdomain(s, false)), "subdomainPrefix": nn(av.NameIsDNSSubdomain(s, true)), "label": nn(av.NameIsDNSLabel(s, false)), "labelPrefix": nn(av.NameIsDNSLabel(s, true)), "label1035": nn(av.NameIsDNS1035Label(s, false)), "label1035Prefix": nn(av.NameIsDNS1035Label(s, true)), "segment": nn(pv.ValidatePathSegmentName(s, false)), "segmentPrefix": nn(pv.ValidatePathSegmentName(s, true)), "labelKey": nn(validation.IsQualifiedName(s)), "labelValue": nn(validation.IsValidLabelValue(s))})
	}
	out["names"] = L
	L = []M{}
	f := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, r := range []string{
		"GET /", "GET /api", "GET /api/", "GET /api/v1", "GET /apis", "GET /apis/apps", "GET /apis/apps/v1",
		"GET /healthz", "POST /healthz/ping", "HEAD /version", "GET /openapi/v3/apis/apps/v1", "GET /other/a/b/c",
		"GET /api/v1/pods", "GET /api/v1/pods/", "HEAD /api/v1/pods", "POST /api/v1/pods", "DELETE /api/v1/pods",
		"PUT /api/v1/pods", "OPTIONS /api/v1/pods", "GET /api/v1/namespaces", "GET /api/v1/namespaces/a",
		"DELETE /api/v1/namespaces/a", "PUT /api/v1/namespaces/a/finalize", "PATCH /api/v1/namespaces/a/status",
		"GET /api/v1/namespaces/a/status/x", "GET /api/v1/namespaces/a/pods", "GET /api/v1/namespaces/a/pods/b",
		"GET /api/v1/namespaces/a/pods/b/log", "GET /api/v1/namespaces/a/pods/b/proxy/x/y",
		"POST /api/v1/namespaces/a/pods/b/eviction", "DELETE /api/v1/namespaces/a/pods",
		"DELETE /api/v1/namespaces/a/pods/b", "PATCH /apis/apps/v1/namespaces/a/deployments/d/scale",
		"GET /apis/apps/v1/deployments", "GET /apis/g.example.com/v1/namespaces/status/foos",
		"GET /api/v1/namespaces/a/namespaces/b", "GET /api/v1/watch/pods", "GET /api/v1/watch/namespaces/a/pods",
		"GET /api/v1/watch/namespaces/a/pods/b", "GET /apis/apps/v1/watch/namespaces/a/deployments",
		"GET /api/v1/watch", "GET /api/v1/proxy", "GET /api/v1/proxy/namespaces/a/pods/b/c/d",
		"GET /api/v1/watch/pods?labelSelector=a", "POST /api/v1/watch/pods", "GET /apis/apps/v1/watch",
		"GET /api/v1/pods?watch=1", "GET /api/v1/pods?watch=true", "GET /api/v1/pods?watch",
		"GET /api/v1/pods?watch=false", "GET /api/v1/pods?watch=False", "GET /api/v1/pods?watch=0",
		"GET /api/v1/pods?watch=no", "GET /api/v1/pods/a?watch=1", "GET /api/v1/pods?watch=1&limit=x",
		"GET /api/v1/pods?watch=0&limit=x", "GET /api/v1/pods?limit=x&fieldSelector=metadata.name%3Da",
		"GET /api/v1/pods?fieldSelector=metadata.name=x", "GET /api/v1/pods?fieldSelector=metadata.name=x&watch=1",
		"GET /api/v1/pods?fieldSelector=metadata.name=x/y", "GET /api/v1/pods?fieldSelector=metadata.name!=x",
		"GET /api/v1/pods?fieldSelector=metadata.name=x,metadata.namespace=y&labelSelector=a%3Db",
		"DELETE /api/v1/pods?fieldSelector=metadata.name=x&labelSelector=a", "GET /api/v1/pods?labelSelector=%2C%2C",
		"GET /api/v1/pods/x?labelSelector=a", "GET /apis/g/v1/foos/a%20b", "GET /api/v1/namespaces/a/pods/b%2Flog",
		"TRACE /api/v1/pods/x", "GET /api/v1/pods?fieldSelector=metadata.name=",
	} {
		p := strings.SplitN(r, " ", 2)
		u, err := url.Parse(p[1])
		if err != nil {
			panic(err)
		}
		i, err := f.NewRequestInfo(&http.Request{Method: p[0], URL: u})
		if err != nil {
			L = append(L, M{"method": p[0], "url": p[1], "error": err.Error()})
			continue
		}
		L = append(L, M{"method": p[0], "url": p[1], "info": M{"resource_request": i.IsResourceRequest, "path": i.Path, "verb": i.Verb, "prefix": i.APIPrefix, "group": i.APIGroup, "version": i.APIVersion, "namespace": i.Namespace, "resource": i.Resource, "subresource": i.Subresource, "name": i.Name, "parts": nn(i.Parts), "fields": i.FieldSelector, "labels": i.LabelSelector}})
	}
	out["paths"] = L
	// options
	L = []M{}
	for _, q := range []string{
		"", "limit=5", "limit=x", "limit=", "limit=99999999999999999999", "timeoutSeconds=-5", "timeoutSeconds=1.5",
		"timeoutSeconds=3", "labelSelector=,", "fieldSelector=a", "labelSelector=,&limit=x",
		"resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=Exact",
		"resourceVersion=5&resourceVersionMatch=Exact", "resourceVersion=5&resourceVersionMatch=Exact&continue=x",
		"resourceVersion=5&resourceVersionMatch=Nope", "resourceVersionMatch=NotOlderThan&resourceVersion=0",
		"sendInitialEvents=true", "sendInitialEvents=", "watch=1", "watch=1&resourceVersion=0",
		"watch=1&resourceVersion=7", "watch=1&sendInitialEvents=true",
		"watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan",
		"watch=1&sendInitialEvents=false&resourceVersionMatch=Exact", "watch=1&resourceVersionMatch=NotOlderThan",
		"watch=1&resourceVersionMatch=Exact&continue=a", "watch=1&continue=x", "allowWatchBookmarks=true&watch=TRUE",
		"allowWatchBookmarks=0", "limit=1&limit=2", "continue=abc", "labelSelector=a%3Db&fieldSelector=c%3Dd",
	} {
		v, _ := url.ParseQuery(q)
		o := mi.ListOptions{}
		if err := mis.ParameterCodec.DecodeParameters(v, metav1.SchemeGroupVersion, &o); err != nil {
			L = append(L, M{"query": q, "error": err.Error()})
			continue
		}
		mi.SetListOptionsDefaults(&o, true)
		row := M{"query": q, "watch": o.Watch, "bookmarks": o.AllowWatchBookmarks, "rv": o.ResourceVersion, "match": string(o.ResourceVersionMatch), "limit": o.Limit, "continue": o.Continue, "timeout": o.TimeoutSeconds, "initial": o.SendInitialEvents, "errors": errsOf(iv.ValidateListOptions(&o, true))}
		L = append(L, row)
	}
	out["listOptions"] = L
	L = []M{}
	for _, q := range []string{
		"", "gracePeriodSeconds=0", "gracePeriodSeconds=-1", "gracePeriodSeconds=x", "orphanDependents=true",
		"orphanDependents=", "orphanDependents=0", "propagationPolicy=Foreground", "propagationPolicy=foreground",
		"propagationPolicy=", "orphanDependents=false&propagationPolicy=Orphan",
		"orphanDependents=false&propagationPolicy=%3C", "dryRun=All", "dryRun=all", "dryRun=", "dryRun=All&dryRun=All",
		"dryRun=All&dryRun=x%3C", "uid=u", "resourceVersion=5", "uid=u&resourceVersion=5", "uid=",
	} {
		v, _ := url.ParseQuery(q)
		o := metav1.DeleteOptions{}
		if err := mis.ParameterCodec.DecodeParameters(v, metav1.SchemeGroupVersion, &o); err != nil {
			L = append(L, M{"query": q, "error": err.Error()})
			continue
		}
		row := M{"query": q, "grace": o.GracePeriodSeconds, "orphan": o.OrphanDependents, "policy": o.PropagationPolicy, "dryRun": nn(o.DryRun), "uid": nil, "rv": nil, "errors": errsOf(v1v.ValidateDeleteOptions(&o))}
		if o.Preconditions != nil {
			row["uid"] = o.Preconditions.UID
			row["rv"] = o.Preconditions.ResourceVersion
		}
		L = append(L, row)
	}
	out["deleteOptions"] = L
	L = []M{}
	for _, q := range []string{
		"", "fieldManager=kubectl", "fieldManager=" + strings.Repeat("m", 128), "fieldManager=" + strings.Repeat("m", 129),
		"fieldManager=a%07b%C2%AD", "fieldManager=%C3%BC+x", "dryRun=All", "dryRun=x", "fieldValidation=Strict",
		"fieldValidation=strict", "fieldValidation=Warn", "fieldValidation=Ignore", "force=true", "force=0", "force=",
		"fieldManager=m&force=true", "fieldManager=%00&dryRun=x&fieldValidation=y&force=1",
	} {
		v, _ := url.ParseQuery(q)
		c := metav1.CreateOptions{}
		u := metav1.UpdateOptions{}
		p := metav1.PatchOptions{}
		for _, o := range []runtime.Object{&c, &u, &p} {
			if err := mis.ParameterCodec.DecodeParameters(v, metav1.SchemeGroupVersion, o); err != nil {
				panic(err)
			}
		}
		L = append(L, M{"query": q, "manager": c.FieldManager, "dryRun": nn(c.DryRun), "validation": c.FieldValidation, "force": p.Force, "create": errsOf(v1v.ValidateCreateOptions(&c)), "update": errsOf(v1v.ValidateUpdateOptions(&u)), "patch": errsOf(v1v.ValidatePatchOptions(&p, types.MergePatchType)), "apply": errsOf(v1v.ValidatePatchOptions(&p, types.ApplyYAMLPatchType))})
	}
	out["writeOptions"] = L
	// delete options bodies
	L = []M{}
	for _, b := range []string{
		`{}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":5,"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Orphan","dryRun":["All"]}`,
		`{"gracePeriodSeconds":"x"}`, `{"orphanDependents":1}`, `{"propagationPolicy":{}}`, `{"dryRun":"All"}`,
		`{"dryRun":[1]}`, `{"preconditions":[]}`, `{"preconditions":{"uid":1}}`, `{"gracePeriodSeconds":1.5}`,
		`{"gracePeriodSeconds":null,"dryRun":null,"preconditions":null}`,
		`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","orphanDependents":false}`, `{"unknown":1}`,
		`{"preconditions":{"resourceVersion":true}}`, `{"preconditions":{}}`,
	} {
		o := metav1.DeleteOptions{}
		gvk := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		si, _ := runtime.SerializerInfoForMediaType(mis.Codecs.SupportedMediaTypes(), "application/json")
		_, _, err := mis.Codecs.DecoderToVersion(si.Serializer, gvk.GroupVersion()).Decode([]byte(b), &gvk, &o)
		if err != nil {
			L = append(L, M{"body": b, "error": err.Error()})
			continue
		}
		row := M{"body": b, "grace": o.GracePeriodSeconds, "orphan": o.OrphanDependents, "policy": o.PropagationPolicy, "dryRun": nn(o.DryRun), "uid": nil, "rv": nil}
		if o.Preconditions != nil {
			row["uid"] = o.Preconditions.UID
			row["rv"] = o.Preconditions.ResourceVersion
		}
		L = append(L, row)
	}
	out["deleteBodies"] = L
	// metadata
	L = []M{}
	p := field.NewPath("metadata")
	for _, b := range []string{
		`{}`, `{"name":"a"}`, `{"name":"a","namespace":"n"}`,
		`{"generateName":"X-","name":"A_b","namespace":"a.b","generation":-1,"labels":{"a/b/c":"-x"},"annotations":{"-Bad":"v","Good.example.com/X":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"e","uid":"u","controller":true},{"controller":true}],"finalizers":["orphan","foregroundDeletion","bad name"],"managedFields":[{"operation":"X","fieldsType":"Y","manager":"a\u0007b"}]}`,
		`{"generateName":"A_","namespace":"n"}`,
		`{"name":"a","namespace":"n","labels":{"a":"b","-":"c","d":"_"},"managedFields":[{"operation":"Apply","fieldsType":"FieldsV1","manager":"m"},{"operation":"Update","manager":"` + strings.Repeat("m", 129) + `","subresource":"` + strings.Repeat("s", 257) + `"}]}`,
		`{"name":"a","namespace":"n","ownerReferences":[{"apiVersion":"a/b/c","kind":"K","name":"k","uid":"u","blockOwnerDeletion":true},{"apiVersion":"apps/v1","kind":"D","name":"<d>","uid":"u","controller":true},{"apiVersion":"apps/v1","kind":"D","name":"e","uid":"v","controller":true}]}`,
	} {
		var o metav1.ObjectMeta
		if err := json.Unmarshal([]byte(b), &o); err != nil {
			panic(err)
		}
		L = append(L, M{"metadata": json.RawMessage(b), "namespaced": errsOf(av.ValidateObjectMeta(&o, true, av.NameIsDNSSubdomain, p)), "cluster": errsOf(av.ValidateObjectMeta(&o, false, av.NameIsDNSSubdomain, p))})
	}
	out["metadataCreate"] = L
	L = []M{}
	for _, b := range [][2]string{{`{"name":"a","resourceVersion":"1"}`, `{"name":"a","resourceVersion":"1"}`}, {`{"name":"a","namespace":"n","uid":"1","generation":4,"creationTimestamp":"2023-11-14T22:13:20Z","deletionTimestamp":"2023-11-14T22:13:20Z","deletionGracePeriodSeconds":5,"finalizers":["a/b"]}`, `{"name":"b","namespace":"m","uid":"2","generation":3,"finalizers":["a/b","z/b","c/d"]}`}, {`{"name":"a","creationTimestamp":"2023-11-14T22:13:20Z","deletionTimestamp":"2023-11-14T22:13:20Z","deletionGracePeriodSeconds":5,"finalizers":["a/b"]}`, `{"name":"a","resourceVersion":"1","creationTimestamp":"2023-11-14T22:13:21Z","deletionTimestamp":"2023-11-14T22:13:22Z","deletionGracePeriodSeconds":0}`}, {`{"name":"a","creationTimestamp":"2023-11-14T22:13:20Z"}`, `{"name":"a","resourceVersion":"1","creationTimestamp":"2023-11-14T23:13:20+01:00","labels":{"-":"-"},"annotations":{"-":""},"ownerReferences":[{}],"finalizers":["bad name"],"managedFields":[{}]}`}, {`{"name":"a"}`, `{"name":"a","finalizers":["new/one"]}`}} {
		var o, n metav1.ObjectMeta
		if err := json.Unmarshal([]byte(b[0]), &o); err != nil {
			panic(err)
		}
		if err := json.Unmarshal([]byte(b[1]), &n); err != nil {
			panic(err)
		}
		L = append(L, M{"old": json.RawMessage(b[0]), "new": json.RawMessage(b[1]), "errors": errsOf(av.ValidateObjectMetaUpdate(&n, &o, p))})
	}
	out["metadataUpdate"] = L
	write(out)
}

// write puts one row on a line, tables sorted by name, so that a change shows as the rows that changed.
func write(tables M) {
	names := []string{}
	for name := range tables {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, name := range names {
		fmt.Printf(" %q: [\n", name)
		rows := tables[name].([]M)
		for j, row := range rows {
			text, err := json.Marshal(row)
			if err != nil {
				panic(err)
			}
			comma := ","
			if j == len(rows)-1 {
				comma = ""
			}
			fmt.Printf("  %s%s\n", text, comma)
		}
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Printf(" ]%s\n", comma)
	}
	fmt.Println("}")
}

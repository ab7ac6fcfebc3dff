package kube

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/schema"
)

// protoOf is an object, given in JSON, as a server sends it in protobuf: in its envelope.
func protoOf(tb testing.TB, r Resource, object string) string {
	tb.Helper()
	out, err := schema.For(r.APIVersion(), r.Kind).Encode(r.APIVersion(), r.Kind, canonical(tb, object))
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

// protoListOf is a list of objects that are given in JSON.
func protoListOf(tb testing.TB, r Resource, rv string, objects ...string) string {
	tb.Helper()
	var items []byte
	for _, o := range objects {
		fields, err := new(schema.Encoder).Append(nil, schema.For(r.APIVersion(), r.Kind), canonical(tb, o))
		if err != nil {
			tb.Fatal(err)
		}
		items = append(schema.AppendItem(items, len(fields)), fields...)
	}
	meta := []byte(`{"resourceVersion":"` + rv + `"}`)
	out, err := schema.AppendList(nil, r.APIVersion(), r.Kind+"List", meta, len(items))
	if err != nil {
		tb.Fatal(err)
	}
	return string(out) + string(items) + schema.EndOfEnvelope
}

func protoFrame(eventType, object string) string {
	return string(schema.EncodeEvent(eventType, []byte(object)))
}

// canonical is an object as a server stores it, which package schema wants.
func canonical(tb testing.TB, object string) []byte {
	tb.Helper()
	v, err := patch.Decode([]byte(object))
	if err != nil {
		tb.Fatal(err)
	}
	out, err := patch.Encode(v)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// widePod declares something of each form that a field can have.
type widePod struct {
	MetaAnnotated `json:"metadata"`
	Spec          struct {
		NodeName     string            `json:"nodeName"`
		Priority     *int32            `json:"priority"`
		NodeSelector map[string]string `json:"nodeSelector"`
	} `json:"spec"`
	Status struct {
		Phase      string     `json:"phase"`
		StartTime  *time.Time `json:"startTime"`
		Conditions []struct {
			Type string    `json:"type"`
			At   time.Time `json:"lastTransitionTime"`
			Seen time.Time `json:"lastProbeTime"`
		} `json:"conditions"`
		Containers []struct {
			Started  *bool `json:"started"`
			Ready    bool  `json:"ready"`
			Restarts int   `json:"restartCount"`
			State    struct {
				Terminated *struct {
					ExitCode int16 `json:"exitCode"`
				} `json:"terminated"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

const corners = `{"metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7","generation":3,
	"creationTimestamp":"1970-01-01T00:00:00Z","deletionTimestamp":"2026-11-01T10:00:00Z",
	"labels":{"app":"web","tier":""},"annotations":{"b":"ü","a":"\"x\""},"finalizers":["one","two"],
	"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"w","controller":true},
	{"apiVersion":"v1","kind":"Node","name":"n","uid":"x"}]},
	"spec":{"nodeName":"node-1","priority":0,"nodeSelector":{"disk":"ssd"}},
	"status":{"phase":"Failed","startTime":"2026-11-01T10:00:00Z",
	"conditions":[{"type":"Ready","lastProbeTime":null,"lastTransitionTime":"2026-11-01T10:00:00Z"},{"type":"X"}],
	"containerStatuses":[{"name":"c","started":false,"ready":true,"restartCount":300,
	"state":{"terminated":{"exitCode":-1}}},{"name":"d","ready":false,"restartCount":0}]}}`

func TestAnObjectIsTheSameInBothEncodings(t *testing.T) {
	for _, object := range []string{corners, realisticPod(1), item("a", "5"), `{"metadata":{"name":"a"}}`} {
		var fromJSON, fromProtobuf ListResult[*widePod]
		list := `{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[` + object + `]}`
		if _, err := decodePage(newScanner(strings.NewReader(list)), "Pod", &fromJSON); err != nil {
			t.Fatal(err)
		}
		in := newProtoReader(iotest.OneByteReader(strings.NewReader(protoListOf(t, pods, "9", object))),
			protoPlanOf[*widePod](pods), expected{})
		if _, err := decodeProtoPage(in, "Pod", &fromProtobuf); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(fromProtobuf, fromJSON) {
			t.Errorf("protobuf gives %+v\nJSON gives %+v", fromProtobuf.Items[0], fromJSON.Items[0])
		}
	}
}

// The table is compared with that of package schema, which a test of internal/tools/e2e compares with k8s.io/api.
func TestTheTableOfNumbersIsRight(t *testing.T) {
	text, err := os.ReadFile("../../testcluster/apiserver/schema/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	types := map[string]map[string]string{} // type -> field -> "TYPE NUMBER", with * for a pointer
	current := ""
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || line[0] == '#':
		case line[0] == ' ':
			for _, w := range words[1:] {
				name, number, _ := strings.Cut(w, "=")
				plain := strings.TrimRight(name, "!*+")
				types[current][plain] = words[0] + " " + number
				if strings.Contains(name, "*") {
					types[current][plain] += "*"
				}
			}
		case len(words) == 3:
			kinds[words[0]+" "+words[1]] = words[2]
		default:
			current = words[0]
			types[current] = map[string]string{}
		}
	}
	forms := map[string]string{"micro-time": "microtime", "int32": "int", "int64": "int", "map:string": "map",
		"map:bytes": "bytes"}
	seen := map[string]bool{"ListMeta": true, "bookmark": true} // tested by lists and watches
	var compare func(message, with string)
	compare = func(message, with string) {
		if seen[message] {
			return
		}
		seen[message] = true
		for name, n := range numbersOf(message) {
			kind, number, _ := strings.Cut(types[with][name], " ")
			number, pointer := strings.CutSuffix(number, "*")
			list := strings.HasPrefix(kind, "[") // "[]T", or with merge keys between the brackets
			if list {
				_, kind, _ = strings.Cut(kind, "]")
			}
			if types[kind] != nil {
				compare(n.kind, kind)
				kind = n.kind
			} else if forms[kind] != "" {
				kind = forms[kind]
			}
			if n.kind == "own" {
				n.kind = "string"
			}
			if number != fmt.Sprint(n.number) || pointer != n.pointer || list != n.list || kind != n.kind {
				t.Errorf("%s of %s is %+v, want it as in %s: %q", name, message, n, with, types[with][name])
			}
		}
	}
	for message := range messages {
		if kinds[message] != "" {
			compare(message, kinds[message])
		}
	}
	for message := range messages {
		if !seen[message] && !strings.HasPrefix(message, "Status") {
			t.Errorf("nothing uses %s", message)
		}
	}
}

func TestWhatIsNotInTheTableIsReadFromJSON(t *testing.T) {
	type raw struct {
		Meta `json:"metadata"`
		Spec Raw `json:"spec"`
	}
	type unknown struct {
		Meta `json:"metadata"`
		Spec struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
	}
	type pointer struct { // protobuf cannot say that a string which is no pointer is not there
		Meta   `json:"metadata"`
		Status struct {
			Phase *string `json:"phase"`
		} `json:"status"`
	}
	type list struct {
		Meta   `json:"metadata"`
		Status struct {
			Phase []string `json:"phase"`
		} `json:"status"`
	}
	widget := Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget"}
	if protoPlanOf[*raw](pods) != nil || protoPlanOf[*unknown](pods) != nil || protoPlanOf[*pointer](pods) != nil ||
		protoPlanOf[*list](pods) != nil || protoPlanOf[*Open](pods) != nil || protoPlanOf[*pod](widget) != nil {
		t.Error("protobuf is asked for where it cannot be read")
	}
	if protoPlanOf[*pod](pods) == nil || protoPlanOf[*widePod](pods) == nil {
		t.Error("protobuf is not asked for")
	}
}

// tellProto is tell for a watch in protobuf.
func tellProto(r io.Reader) string {
	in := newProtoReader(r, protoPlanOf[*pod](pods), expected{kind: "Pod"})
	return tellEvents(func() (Event[*pod], error) { return nextProtoEvent[*pod](in, nil) })
}

// protoStory is a streamed list, and what comes behind it.
func protoStory(tb testing.TB) string {
	status, err := schema.For("v1", "Status").Encode("v1", "Status", []byte(`{"code":410,"reason":"Expired"}`))
	if err != nil {
		tb.Fatal(err)
	}
	end := `{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}`
	return protoFrame("ADDED", protoOf(tb, pods, item("a", "5"))) + protoFrame("BOOKMARK", protoOf(tb, pods, end)) +
		protoFrame("HELLO", "?") + protoFrame("DELETED", protoOf(tb, pods, item("a", "10"))) +
		protoFrame("ERROR", string(status))
}

func TestAWatchInProtobufIsReadFrameByFrame(t *testing.T) {
	story := protoStory(t)
	const want = "ADDED a 5, BOOKMARK  9 end, HELLO  , DELETED a 10, ERROR 410 Expired, EOF"
	if got := tellProto(iotest.OneByteReader(strings.NewReader(story))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for n := 1; n < len(story); n++ { // wherever it is cut, a part of a frame is no event
		got := tellProto(strings.NewReader(story[:n]))
		if told, _ := strings.CutSuffix(got, ", EOF"); !strings.HasSuffix(got, io.ErrUnexpectedEOF.Error()) &&
			!strings.HasPrefix(want, told) {
			t.Errorf("cut after %d bytes: got %s", n, got)
		}
	}
}

// badProto are objects in their envelope that no API server sends.
func badProto(tb testing.TB) []string {
	good := protoOf(tb, pods, item("a", "5"))
	secret := protoOf(tb, Resource{Version: "v1", Kind: "Secret"}, item("a", "5"))
	meta := "\x0a\x03\x0a\x01a" // the metadata of an object called a
	inEnvelope := func(raw string) string { return "k8s\x00\x12" + string(rune(len(raw))) + raw }
	return []string{
		"", "k8s", good[4:], `{"kind":"Pod"}`, secret,
		good[:len(good)/2],                                    // ends within a field
		"k8s\x00\x12\xff\xff\xff\xff\x0f" + meta,              // 4 GiB are announced
		"k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", // more than 64 bits
		inEnvelope(meta + "\x12\x05\x52\xff\xff\x03\x00"),     // a part that is longer than the whole
		inEnvelope(meta + "\x12\x02\x50\x01"),                 // a number for a string
		inEnvelope(meta + "\x10\x01"),                         // a number for a message
		inEnvelope(meta + "\x07"), inEnvelope(meta + "\x02\x00"), inEnvelope(meta + "\x0c"),
		inEnvelope(meta + strings.Repeat("\xa3\x06", 60)), // groups without an end
		"k8s\x00\x12\x00", inEnvelope("\x0a\x07\x0a\x05../.."),
		inEnvelope(meta) + "\x1a\x04gzip",
	}
}

func TestABadObjectInProtobufIsOneBadObject(t *testing.T) {
	good := protoOf(t, pods, item("b", "7"))
	for _, object := range badProto(t) {
		got := tellProto(strings.NewReader(protoFrame("ADDED", object) + protoFrame("ADDED", good)))
		if !strings.HasPrefix(got, "ADDED bad ") || !strings.HasSuffix(got, ", ADDED b 7, EOF") {
			t.Errorf("%q: got %s", object, got)
		}
		if got := tellProto(strings.NewReader(protoFrame("ERROR", object))); !strings.HasPrefix(got, "broken: ") {
			t.Errorf("an ERROR event with %q: got %s", object, got)
		}
	}
	for _, frame := range []string{"", "\x0a\x05ADDED", "\x0a\x05ADDED\x0a\x05ADDED\x12\x00", "\x12\x00\x12\x00",
		"\x08\x01", "\x0a\x05ADDED\x12\x01\x0a", "\xff"} {
		in := "\x00\x00\x00" + string(rune(len(frame))) + frame + protoFrame("ADDED", good)
		if got := tellProto(strings.NewReader(in)); !strings.HasSuffix(got, " bad , ADDED b 7, EOF") {
			t.Errorf("frame %q: got %s", frame, got)
		}
	}
}

func TestUnknownFieldsOfAllWireTypesAreSkipped(t *testing.T) {
	unknown := "\xa0\x06\x01" + "\xa1\x06\x01\x02\x03\x04\x05\x06\x07\x08" +
		"\xa5\x06\x01\x02\x03\x04" + "\xa2\x06\x01x"
	object := "k8s\x00" + unknown + "\x12" + string(rune(5+len(unknown))) + unknown + "\x0a\x03\x0a\x01a"
	if got := tellProto(strings.NewReader(protoFrame("ADDED", object))); got != "ADDED a , EOF" {
		t.Errorf("got %s", got)
	}
}

func podReader(in string) *protoReader {
	return newProtoReader(strings.NewReader(in), protoPlanOf[*pod](pods), expected{})
}

func TestAnAnnouncedLengthTakesNoMemory(t *testing.T) {
	for what, in := range map[string]string{
		"a frame of 16 MiB":          "\x00\xff\xff\xff",
		"a frame of 4 GiB":           "\xff\xff\xff\xff",
		"a list of 16 EiB":           "k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x3f",
		"an item of 15 MiB":          "k8s\x00\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xbf\x07",
		"an item longer than a list": "k8s\x00\x12\x02\x12\xff\xff\xbf\x07",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var all ListResult[*pod]
		_, err := decodeProtoPage(podReader(in), "Pod", &all)
		got := tellProto(strings.NewReader(in))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.HasPrefix(got, "broken: ") || after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: list %v, watch %s, %d bytes of memory", what, err, got, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func TestAListInProtobufEndsWhereItSays(t *testing.T) {
	whole := protoListOf(t, pods, "9", item("a", "5"), item("b", "7"))
	read := func(in string) (ListResult[*pod], error) {
		var all ListResult[*pod]
		meta, err := decodeProtoPage(podReader(in), "Pod", &all)
		all.ResourceVersion = meta.ResourceVersion
		return all, err
	}
	if got, err := read(whole); err != nil || fmt.Sprint(names(got.Items)) != "[a b]" || got.ResourceVersion != "9" {
		t.Errorf("got %v of version %s, %v", names(got.Items), got.ResourceVersion, err)
	}
	for n := range len(whole) - 5 { // the last fields are empty
		if got, err := read(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for the whole list: %v", n, len(whole), names(got.Items))
		}
	}
	if _, err := read(protoListOf(t, Resource{Version: "v1", Kind: "Secret"}, "9")); err == nil ||
		!strings.Contains(err.Error(), `kind "SecretList"`) {
		t.Errorf("a list of another kind: %v", err)
	}
	bad := "k8s\x00\x0a\x0b\x12\x07PodList\x0a\x00" + "\x12\x0c" + "\x12\x01\xff" + "\x12\x07\x0a\x03\x0a\x01a\x20\x01"
	if got, err := read(bad); err != nil || len(got.Bad) != 1 || len(got.Items) != 1 {
		t.Errorf("got %v and bad %v, %v; want one of each", names(got.Items), got.Bad, err)
	}
}

func TestTheContentTypeOfTheAnswerSaysHowItIsRead(t *testing.T) {
	protobuf := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		}
	}
	list := protoListOf(t, pods, "9", item("a", "5"))
	for _, c := range []struct {
		answer   http.HandlerFunc
		onlyJSON bool
		want     string
	}{
		{protobuf("application/vnd.kubernetes.protobuf", list), false, "[a] <nil>"},
		{answer(200, podList("20", "", item("a", "5"))), false, "[a] <nil>"},
		{answer(200, podList("20", "", item("a", "5"))), true, "[a] <nil>"},
		{protobuf("application/vnd.kubernetes.protobuf", list), true, "want application/json; check the server"},
		{protobuf("text/html", list), false, "want application/json; check the server address"},
		{protobuf("application/vnd.kubernetes.protobuf", "<html>"), false, "does not begin as Kubernetes' does"},
		{answer(200, list), false, "decode list: want an object"},
	} {
		s := scripted(c.answer)
		client := pipeClient(t, s, func(cfg *Config) { cfg.OnlyJSON = c.onlyJSON })
		client = client.Guard(func() error { return nil }) // a client that is made of another asks as that does
		res, err := List[*pod](t.Context(), client, Query{Resource: pods}, ListOptions{})
		if got := fmt.Sprint(names(res.Items), " ", err); !strings.Contains(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
		asked := s.requests()[0].Header.Get("Accept")
		if strings.Contains(asked, "protobuf") == c.onlyJSON || !strings.Contains(asked, "application/json") {
			t.Errorf("onlyJSON %v asks for %s", c.onlyJSON, asked)
		}
	}
}

// FuzzProtobuf feeds a watch and a list of any bytes.
func FuzzProtobuf(f *testing.F) {
	f.Add(protoStory(f))
	f.Add(protoListOf(f, pods, "9", corners, item("b", "7")))
	f.Add(protoFrame("ADDED", protoOf(f, pods, corners)) + protoFrame("MODIFIED", protoOf(f, pods, corners)) +
		protoFrame("MODIFIED", protoOf(f, pods, item("a", "8"))))
	for _, object := range badProto(f) {
		f.Add(protoFrame("ADDED", object))
	}
	f.Fuzz(func(t *testing.T, in string) {
		if got := tellProto(strings.NewReader(in)); got != tellProto(iotest.OneByteReader(strings.NewReader(in))) {
			t.Errorf("%q is read in one way as a whole and in another byte by byte: %s", in, got)
		}
		stream := newProtoReader(strings.NewReader(in), protoPlanOf[*pod](pods), expected{kind: "Pod"})
		wantNames(t, in, func() (Event[*pod], error) { return nextProtoEvent[*pod](stream, nil) })
		readWithKnown(t, in)
		var all ListResult[*widePod]
		plan := protoPlanOf[*widePod](pods)
		_, _ = decodeProtoPage(newProtoReader(strings.NewReader(in), plan, expected{}), "Pod", &all)
		for _, p := range all.Items {
			if p == nil || p.Name == "" {
				t.Errorf("%q gave an item without a name", in)
			}
		}
	})
}

// readWithKnown reads a watch in protobuf with the version before of each object at hand, and fails unless that gives
// the same as to read it without. It returns the last object.
func readWithKnown(t *testing.T, in string) (last *widePod) {
	plan := protoPlanOf[*widePod](pods)
	alone := newProtoReader(strings.NewReader(in), plan, expected{kind: "Pod"})
	aware := newProtoReader(strings.NewReader(in), plan, expected{kind: "Pod"})
	seen := map[Key]*widePod{}
	known := func(k Key) (*widePod, bool) { p, ok := seen[k]; return p, ok }
	for {
		want, wantErr := nextProtoEvent[*widePod](alone, nil)
		got, err := nextProtoEvent(aware, known)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%q: with the version before, %+v, %v; without, %+v, %v", in, got.Object, err, want.Object,
				wantErr)
		}
		if _, bad := err.(*DecodeError); err != nil && !bad {
			return last
		}
		if err == nil && got.Object != nil {
			last = got.Object
			seen[last.Key()] = last
		}
	}
}

// Each of these objects follows each other one, itself among them.
func TestAChangeIsReadAsIfTheVersionBeforeWereNotKnown(t *testing.T) {
	with := func(old, new string) string {
		if changed := strings.Replace(corners, old, new, 1); changed != corners {
			return changed
		}
		t.Fatalf("%s is not in the object", old)
		return ""
	}
	versions := []string{corners, `{"metadata":{"name":"a","namespace":"default"}}`,
		with(`"tier":""`, `"tier":"x","zone":"y"`), with(`"app":"web",`, ``), with(`"app":"web"`, `"app":"other"`),
		with(`,"nodeSelector":{"disk":"ssd"}`, ``), with(`"disk":"ssd"`, `"cpu":"fast"`), with(`"phase":"Failed",`, ``),
		with(`"finalizers":["one","two"],`, ``), with(`"one","two"`, `"two"`), with(`"priority":0`, `"priority":null`),
		with(`"exitCode":-1`, `"exitCode":1`), with(`,{"type":"X"}`, ``), with(`"uid":"u"`, `"uid":"v"`),
		with(`,"controller":true`, ``), with(`"creationTimestamp":"1970-01-01T00:00:00Z",`, ``),
	}
	for _, old := range versions {
		for _, new := range versions {
			readWithKnown(t, protoFrame("ADDED", protoOf(t, pods, old))+protoFrame("MODIFIED", protoOf(t, pods, new))+
				protoFrame("DELETED", protoOf(t, pods, old)))
		}
	}
}

func TestAChangeTakesNoMemoryForWhatItLeavesAsItIs(t *testing.T) {
	object := protoFrame("MODIFIED", protoOf(t, pods, realisticPod(1)))
	var last *widePod
	read := func(known func(Key) (*widePod, bool)) float64 {
		in := strings.NewReader(object)
		p := newProtoReader(in, protoPlanOf[*widePod](pods), expected{})
		return testing.AllocsPerRun(20, func() {
			in.Reset(object)
			p.err = nil
			ev, err := nextProtoEvent(p, known)
			if err != nil {
				t.Fatal(err)
			}
			last = ev.Object
		})
	}
	alone := read(nil)
	if aware := read(func(Key) (*widePod, bool) { return last, true }); aware > alone-2 { // its uid and its version
		t.Errorf("%.0f allocations, without the version before %.0f", aware, alone)
	}
}

func TestTheVersionBeforeIsLookedUpByNamespaceAndName(t *testing.T) {
	for object, want := range map[string]Key{
		corners:                            {Namespace: "default", Name: "a"},
		`{"metadata":{"name":"node-1"}}`:   {Name: "node-1"},
		`{"metadata":{"namespace":"dev"}}`: {Namespace: "dev"},
	} {
		var asked Key
		known := func(k Key) (*widePod, bool) { asked = k; return nil, false }
		in := newProtoReader(strings.NewReader(protoFrame("MODIFIED", protoOf(t, pods, object))),
			protoPlanOf[*widePod](pods), expected{})
		_, err := nextProtoEvent(in, known)
		if _, bad := err.(*DecodeError); err != nil && !bad {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("%s is looked up as %v, want %v", object, asked, want)
		}
	}
}

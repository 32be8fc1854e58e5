package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

var rawType = reflect.TypeFor[json.RawMessage]()

// bindAt reads a value that was found at a pointer into the body as a T. It
// does not check T's validate tags.
func bindAt[T any](raw json.RawMessage, at string) (T, error) {
	var v T
	return v, bind(raw, reflect.ValueOf(&v).Elem(), at)
}

// bind stores one JSON value, found at the pointer at, in into. It is stricter
// than encoding/json: names are case-sensitive and unique, and null is no value
// but of a pointer to a pointer and of a pointer in a map, which say by a nil
// that it was there.
func bind(raw json.RawMessage, into reflect.Value, at string) error {
	if into.Type() == rawType {
		into.SetBytes(raw)
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		p := reflect.New(into.Type().Elem())
		if p.Elem().Kind() == reflect.Pointer && isNull(raw) {
			into.Set(p)
			return nil
		}
		if err := bind(raw, p.Elem(), at); err != nil {
			return err
		}
		into.Set(p)
		return nil
	case reflect.Struct:
		return bindStruct(raw, into, at)
	case reflect.Slice:
		return bindSlice(raw, into, at)
	case reflect.Map:
		return bindMap(raw, into, at)
	case reflect.String:
		if raw[0] != '"' {
			return malformed(at, "must be a string")
		}
	case reflect.Int:
		if n, err := strconv.ParseInt(string(raw), 10, 32); err == nil {
			into.SetInt(n)
			return nil
		}
		return malformed(at, "must be an integer of at most 32 bits")
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return malformed(at, "must be a boolean")
		}
	default:
		return fmt.Errorf("bind %s: a %s cannot be bound", at, into.Type())
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		return fmt.Errorf("bind %s: %w", at, err)
	}
	return nil
}

func bindSlice(raw json.RawMessage, into reflect.Value, at string) error {
	if raw[0] != '[' {
		return malformed(at, "must be an array")
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("bind %s: %w", at, err)
	}
	slice := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		if err := bind(item, slice.Index(i), at+"/"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	into.Set(slice)
	return nil
}

func bindStruct(raw json.RawMessage, into reflect.Value, at string) error {
	fields := map[string]reflect.Value{}
	for i := range into.NumField() {
		fields[jsonName(into.Type().Field(i))] = into.Field(i)
	}
	return members(raw, at, func(name string, value json.RawMessage) error {
		field, ok := fields[name]
		if !ok {
			return malformed(at+"/"+escapePointer(name), "is not a member that this request has")
		}
		return bind(value, field, at+"/"+name)
	})
}

// bindMap stores an object's members under their names, which are the client's.
func bindMap(raw json.RawMessage, into reflect.Value, at string) error {
	m := reflect.MakeMap(into.Type())
	err := members(raw, at, func(name string, value json.RawMessage) error {
		v := reflect.New(into.Type().Elem()).Elem()
		if v.Kind() != reflect.Pointer || !isNull(value) {
			if err := bind(value, v, at+"/"+escapePointer(name)); err != nil {
				return err
			}
		}
		m.SetMapIndex(reflect.ValueOf(name), v)
		return nil
	})
	into.Set(m)
	return err
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// members calls each with the members of an object, none twice.
func members(raw json.RawMessage, at string, each func(name string, value json.RawMessage) error) error {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if raw[0] != '{' {
		return malformed(at, "must be an object")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("bind %s: %w", at, err)
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("bind %s: %w", at, err)
		}
		name := tok.(string) // what stands before a colon in valid JSON
		if seen[name] {
			return malformed(at+"/"+escapePointer(name), "is there twice")
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("bind %s: %w", at, err)
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	return nil
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// The lines of the log. Each is an event: a fixed name, a sentence, and fields.
//
//     text    2026-11-25 10:00:00.000 info    save finished: keys=3 bytes=123 seconds=0.012
//     JSON    {"time":"...","level":"info","event":"save_finished","message":"save finished","keys":3,...}
//
// docs/operations/watch.md lists all events; a test compares that list with the sources. It finds them by
// their form: the name is a literal, and each field is {"name", value}.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace sepal::log {

enum class Level : std::uint8_t { debug, info, warn, error };
enum class Format : std::uint8_t { text, json };

// A name and a value, for the length of a call.
class Field {
 public:
  using Value = std::variant<std::string_view, std::uint64_t, double, bool>;

  // A number without a sign, a truth, or any bytes: what cannot be printed is escaped.
  template <class Given>
  Field(std::string_view name, const Given& value) : name_(name), value_(value_of(value)) {}
  // `digits` behind the point.
  Field(std::string_view name, double value, int digits) : name_(name), value_(value), digits_(digits) {}

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] int digits() const { return digits_; }

 private:
  template <class Given>
  static Value value_of(const Given& value) {
    static_assert(!std::floating_point<Given>, "a real number needs a number of digits");
    static_assert(!std::signed_integral<Given>, "numbers have no sign");
    if constexpr (std::same_as<Given, bool>) {
      return value;
    } else if constexpr (std::unsigned_integral<Given>) {
      return std::uint64_t{value};
    } else {
      return std::string_view(value);
    }
  }

  std::string_view name_;
  Value value_;
  int digits_ = 0;
};

using Fields = std::initializer_list<Field>;

// Any thread. `event` has small letters and '_'. `message` says the same to people; where it repeats what
// another part of the program has found wrong, it may have any bytes.
void write(Level level, std::string_view event, std::string_view message, Fields fields = {});

inline void debug(std::string_view event, std::string_view message, Fields fields = {}) {
  write(Level::debug, event, message, fields);
}
inline void info(std::string_view event, std::string_view message, Fields fields = {}) {
  write(Level::info, event, message, fields);
}
inline void warn(std::string_view event, std::string_view message, Fields fields = {}) {
  write(Level::warn, event, message, fields);
}
inline void error(std::string_view event, std::string_view message, Fields fields = {}) {
  write(Level::error, event, message, fields);
}

// Whether a line of this level is written.
[[nodiscard]] bool is_on(Level level);

// Text until the first call. Called before other threads log.
void set_format(Format format);

// What stands in a line behind time and level. For JSON: members behind which the object ends, and its end.
[[nodiscard]] std::string body_of(Format format, std::string_view event, std::string_view message,
                                  Fields fields);

}  // namespace sepal::log

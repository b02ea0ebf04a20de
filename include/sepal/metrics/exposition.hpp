// Writes metrics as text that Prometheus reads: its own format (version 0.0.4), or OpenMetrics 1.0.
//
//     # HELP sepal_keys Keys in all databases
//     # TYPE sepal_keys gauge
//     sepal_keys 12
//
// All samples of a family stand together, behind its head. The two formats differ in the name of a counter's
// family (with "_total", and without) and in the last line.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sepal::metrics {

enum class Format : std::uint8_t { prometheus, open_metrics };
[[nodiscard]] std::string_view content_type(Format format);

// Bytes as text that is valid UTF-8: what is not valid becomes "\x" and two digits. A backslash that begins
// such four characters becomes "\x5c", so different bytes have different texts.
[[nodiscard]] std::string printable(std::string_view bytes);

// Confined to one thread.
class Exposition {
 public:
  using Label = std::pair<std::string_view, std::string_view>;  // a value is valid UTF-8
  using Labels = std::initializer_list<Label>;

  explicit Exposition(Format format) : format_(format) {}

  // Begin a family. `name` is a whole name without "_total"; `help` is one line.
  Exposition& counter(std::string_view name, std::string_view help);
  Exposition& gauge(std::string_view name, std::string_view help);
  Exposition& histogram(std::string_view name, std::string_view help);

  // A family of one sample: any number, or 1 for true.
  void counter(std::string_view name, std::string_view help, auto value) {
    counter(name, help).sample({}, value);
  }
  void gauge(std::string_view name, std::string_view help, auto value) {
    gauge(name, help).sample({}, value);
  }

  // One sample of the family that was begun last.
  Exposition& sample(Labels labels, double value);
  Exposition& sample(Labels labels, std::integral auto value) {
    return sample(labels, static_cast<double>(value));
  }

  struct Bucket {
    double bound;         // the largest value that it counts
    std::uint64_t count;  // of all values up to the bound
  };
  // One series of the histogram that was begun last. `count` is of all values.
  Exposition& series(Labels labels, std::span<const Bucket> buckets, double sum, std::uint64_t count);

  // The text, which is then complete.
  [[nodiscard]] std::string finish() &&;

 private:
  void head(std::string_view name, std::string_view help, std::string_view type);
  void line(std::string_view suffix, Labels labels, const Label* last_label, double value);

  Format format_;
  std::string text_;
  std::string name_;     // of the family that was begun last
  bool counts_ = false;  // it is a counter
};

}  // namespace sepal::metrics

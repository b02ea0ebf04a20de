// Writes JSON, for the pages for operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sepal::metrics {

// Puts the commas; the caller closes what it opens. The text is valid UTF-8 whatever bytes it is given.
// Confined to one thread.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  // The name of the member that comes next.
  JsonWriter& name(std::string_view name);

  // Bytes that are no UTF-8 become text, as printable() has them.
  JsonWriter& text(std::string_view bytes);
  // JSON has no infinity and no NaN: they become null.
  JsonWriter& number(double value);
  JsonWriter& number(std::uint64_t value);
  JsonWriter& truth(bool value) { return plain(value ? "true" : "false"); }
  JsonWriter& null() { return plain("null"); }

  [[nodiscard]] std::string finish() && { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& plain(std::string_view value);
  void separate();
  void quote(std::string_view bytes);

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace sepal::metrics

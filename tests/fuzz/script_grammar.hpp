// Prints Lua scripts. The bytes of a fuzzer choose what stands in them, so that mutated bytes give other
// scripts that still compile, most of the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sepal::test {

// The bytes of one input, taken from its beginning. Behind its end each byte is 0.
class FuzzBytes {
 public:
  explicit FuzzBytes(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  std::string take(std::size_t size) {
    const auto part = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return {part.begin(), part.end()};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

// Reads one script after the other from the bytes.
class ScriptGrammar {
 public:
  explicit ScriptGrammar(FuzzBytes& bytes) : bytes_(bytes) {}

  // One script.
  std::string script();

 private:
  template <std::size_t size>
  std::string_view one_of(const std::string_view (&choices)[size]) {
    return choices[bytes_.byte() % size];
  }
  void put(std::string_view text) { text_.append(text); }
  // Where this is false, the grammar puts only what has no parts, and ends.
  [[nodiscard]] bool may_nest() const;

  void block();
  void statement();
  void loop();
  void branch();
  void change_table();
  void keep_coroutine();
  void compile_code();
  void fill_table();
  void expression();
  void nested_expression();
  void number();
  void string();
  void quoted(std::string_view bytes);
  void repeated(std::span<const std::string_view> pieces);
  void table();
  void table_with_metatable();
  void function();
  void call(bool is_protected);
  void arguments(std::string_view kinds);
  void argument(char kind);
  void words();
  void body(std::string_view before, std::string_view behind);

  FuzzBytes& bytes_;
  std::string text_;
  int level_ = 0;
};

}  // namespace sepal::test

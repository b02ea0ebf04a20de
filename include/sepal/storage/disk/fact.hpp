// One line about one thing: for people, or for a program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sepal::storage {

// What a thing is, and its values by name: a line for people, or for a program. Confined.
class Fact {
 public:
  explicit Fact(std::string_view what);
  // Takes any bytes: a byte that cannot be printed is written as \x01.
  Fact& text(std::string_view name, std::string_view value);
  Fact& number(std::string_view name, std::uint64_t value);
  Fact& real(std::string_view name, double value);
  // A number of 64 bits that nothing is computed with: 0x and its digits. In JSON it is a text, because many
  // readers of JSON keep 53 bits of a number.
  Fact& identity(std::string_view name, std::uint64_t value);

  [[nodiscard]] const std::string& line() const { return line_; }  // filter key="a" items=3
  [[nodiscard]] std::string json() const { return json_ + "}"; }   // {"what":"filter","key":"a","items":3}

 private:
  Fact& put(std::string_view name, std::string_view text, std::string_view json);
  std::string line_;
  std::string json_;
};

using FactSink = std::function<void(const Fact&)>;

}  // namespace sepal::storage

#include <sepal/log/event.hpp>

#include "support/catch.hpp"

namespace event_test {

using namespace sepal;
using log::Format;

TEST_CASE("a line of text is a sentence and its fields") {
  CHECK(log::body_of(Format::text, "save_finished", "save finished",
                     {{"keys", 3u}, {"seconds", 0.0126, 3}, {"linked", true}, {"generation", "g-1"}}) ==
        "save finished: keys=3 seconds=0.013 linked=true generation=g-1");
  CHECK(log::body_of(Format::text, "e", "nothing more", {}) == "nothing more");
}

TEST_CASE("a line of JSON has the fields as members") {
  CHECK(log::body_of(Format::json, "save_finished", "save finished",
                     {{"keys", ~std::uint64_t{0}},
                      {"seconds", 0.0126, 3},
                      {"percent", 1e300 * 1e300, 1},
                      {"linked", false},
                      {"reason", std::string("a \"b\"")}}) ==
        R"("event":"save_finished","message":"save finished","keys":18446744073709551615,"seconds":0.013,)"
        R"("percent":null,"linked":false,"reason":"a \"b\""})");
}

TEST_CASE("a value of several words, or of none, stands in quotes") {
  const auto text = [](std::string_view value) {
    return log::body_of(Format::text, "e", "m", {{"v", value}});
  };
  CHECK(text("/data/sepal") == "m: v=/data/sepal");
  CHECK(text("") == "m: v=\"\"");
  CHECK(text("two words") == "m: v=\"two words\"");
  CHECK(text("a=b") == "m: v=\"a=b\"");
  CHECK(text("a\"b\\c") == "m: v=\"a\\\"b\\\\c\"");
  CHECK(text("\xc3\xa9") == "m: v=\xc3\xa9");
}

TEST_CASE("control bytes cannot make another line or steer a terminal") {
  const std::string evil("a\nb\x1b[2J\x7f\0", 9);
  CHECK(log::body_of(Format::text, "e", evil, {{"v", evil}}) ==
        "a\\x0ab\\x1b[2J\\x7f\\x00: v=\"a\\x0ab\\x1b[2J\\x7f\\x00\"");
  const std::string json = log::body_of(Format::json, "e", evil, {{"v", std::string_view("\xff\n")}});
  for (const char letter : json) CHECK(static_cast<unsigned char>(letter) >= 0x20);
  CHECK(json.find("\\u000a") != std::string::npos);
  CHECK(json.find('\xff') == std::string::npos);
}

}  // namespace event_test

#include <sepal/metrics/json.hpp>

#include "support/catch.hpp"

namespace json_test {

using sepal::metrics::JsonWriter;

TEST_CASE("JSON has commas between values and none elsewhere") {
  JsonWriter to;
  to.begin_object().name("a").begin_array().number(1.5).null().truth(true).end_array();
  to.name("b").begin_object().end_object().name("c").begin_array().begin_array().end_array().truth(false);
  to.end_array().end_object();
  CHECK(std::move(to).finish() == R"({"a":[1.5,null,true],"b":{},"c":[[],false]})");
}

TEST_CASE("JSON quotes every byte that is not plain text") {
  JsonWriter to;
  to.begin_array().text("\"\\\n\x01</script>").text("\xff\xc3\xa4").text(std::string(1, '\0')).end_array();
  CHECK(std::move(to).finish() == "[\"\\\"\\\\\\u000a\\u0001</script>\",\"\\\\xff\xc3\xa4\",\"\\u0000\"]");
}

TEST_CASE("JSON has whole numbers whole, and no infinity") {
  JsonWriter to;
  to.begin_array().number(std::numeric_limits<std::uint64_t>::max()).number(1e-15);
  to.number(std::numeric_limits<double>::infinity()).number(std::numeric_limits<double>::quiet_NaN());
  CHECK(std::move(to.end_array()).finish() == "[18446744073709551615,1e-15,null,null]");
}

}  // namespace json_test

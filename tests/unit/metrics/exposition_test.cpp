#include <sepal/metrics/exposition.hpp>

#include "support/catch.hpp"

namespace exposition_test {

using namespace sepal::metrics;

namespace {

std::string written(Format format) {
  Exposition exposition(format);
  exposition.counter("x_requests", "Requests").sample({{"command", "get"}}, 3);
  exposition.gauge("x_keys", "Keys", 0.5);
  const std::vector<Exposition::Bucket> buckets{{.bound = 0.001, .count = 1}, {.bound = 2, .count = 4}};
  exposition.histogram("x_seconds", "Time").series({{"command", "get"}}, buckets, 7.25, 5);
  return std::move(exposition).finish();
}

}  // namespace

TEST_CASE("the text is what Prometheus reads") {
  CHECK(written(Format::prometheus) ==
        "# HELP x_requests_total Requests\n"
        "# TYPE x_requests_total counter\n"
        "x_requests_total{command=\"get\"} 3\n"
        "# HELP x_keys Keys\n"
        "# TYPE x_keys gauge\n"
        "x_keys 0.5\n"
        "# HELP x_seconds Time\n"
        "# TYPE x_seconds histogram\n"
        "x_seconds_bucket{command=\"get\",le=\"0.001\"} 1\n"
        "x_seconds_bucket{command=\"get\",le=\"2\"} 4\n"
        "x_seconds_bucket{command=\"get\",le=\"+Inf\"} 5\n"
        "x_seconds_sum{command=\"get\"} 7.25\n"
        "x_seconds_count{command=\"get\"} 5\n");
}

TEST_CASE("OpenMetrics names a counter's family without _total, and has an end") {
  const std::string text = written(Format::open_metrics);
  CHECK(text.starts_with("# HELP x_requests Requests\n# TYPE x_requests counter\nx_requests_total{"));
  CHECK(text.ends_with("x_seconds_count{command=\"get\"} 5\n# EOF\n"));
}

TEST_CASE("labels are escaped, and numbers may be infinite") {
  Exposition exposition(Format::prometheus);
  exposition.gauge("x", "X").sample({{"key", "a\"b\\c\nd"}}, std::numeric_limits<double>::infinity());
  exposition.gauge("y", "Y", std::numeric_limits<double>::quiet_NaN());
  exposition.gauge("z", "Z", 1e300);
  CHECK(std::move(exposition).finish() ==
        "# HELP x X\n# TYPE x gauge\nx{key=\"a\\\"b\\\\c\\nd\"} +Inf\n"
        "# HELP y Y\n# TYPE y gauge\ny NaN\n"
        "# HELP z Z\n# TYPE z gauge\nz 1e+300\n");
}

TEST_CASE("bytes that are no UTF-8 are shown as digits") {
  CHECK(printable("plain") == "plain");
  CHECK(printable("gr\xc3\xbc\xc3\x9f"
                  "e \xe2\x82\xac \xf0\x9f\x8c\xbc") ==
        "gr\xc3\xbc\xc3\x9f"
        "e \xe2\x82\xac \xf0\x9f\x8c\xbc");
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("a\xc3") == "a\\xc3");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("\xe0\x80\x80") == "\\xe0\\x80\\x80");
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(printable("") == "");
  CHECK(printable("\\xff") == "\\x5cxff");
  CHECK(printable("\\x5cxff") == "\\x5cx5cxff");
  CHECK(printable("C:\\xf\\xFF\\") == "C:\\xf\\xFF\\");
}

}  // namespace exposition_test

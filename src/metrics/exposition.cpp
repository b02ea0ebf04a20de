#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/metrics/exposition.hpp>

#include <cmath>

namespace sepal::metrics {
namespace {

// The length of the character in UTF-8 that `text` begins with; 0 if it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t at) -> unsigned { return static_cast<unsigned char>(text[at]); };
  // The well-formed sequences of the Unicode standard (table 3-7). Prometheus refuses a whole scrape for
  // one label that is no UTF-8, and keys are any bytes.
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  // Bytes that begin no character; then a character that the text cuts off.
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at)
    if ((byte(at) & 0xc0) != 0x80) return 0;
  // Longer than needed, surrogates, and above U+10FFFF.
  const unsigned second = byte(1);
  const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_wrong ? 0 : length;
}

// The spellings of infinity and NaN are those of the format, not those of C++.
void append_value(std::string& text, double value) {
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
  } else {
    text += digits_of_real(value);
  }
}

void append_label(std::string& text, const Exposition::Label& label) {
  text.append(label.first).append("=\"");
  for (const char c : label.second) {
    // The format knows three escapes in a label. Other control characters stand as they are.
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  text += '"';
}

constexpr std::string_view hex_digits = "0123456789abcdef";

// The bytes begin like what printable() writes for a byte.
bool is_escape(std::string_view bytes) {
  constexpr std::size_t length = 4;
  return bytes.size() >= length && bytes.starts_with("\\x") &&
         bytes.substr(2, 2).find_first_not_of(hex_digits) == std::string_view::npos;
}

}  // namespace

std::string_view content_type(Format format) {
  return format == Format::prometheus ? "text/plain; version=0.0.4; charset=utf-8"
                                      : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

std::string printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (length > 0) {
      if (is_escape(bytes))
        text.append("\\x5c");
      else
        text.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
      continue;
    }
    const unsigned byte = static_cast<unsigned char>(bytes[0]);
    text.append("\\x").append(1, hex_digits[byte >> 4]).append(1, hex_digits[byte & 15]);
    bytes.remove_prefix(1);
  }
  return text;
}

Exposition& Exposition::counter(std::string_view name, std::string_view help) {
  head(name, help, "counter");
  counts_ = true;
  return *this;
}

Exposition& Exposition::gauge(std::string_view name, std::string_view help) {
  head(name, help, "gauge");
  return *this;
}

Exposition& Exposition::histogram(std::string_view name, std::string_view help) {
  head(name, help, "histogram");
  return *this;
}

void Exposition::head(std::string_view name, std::string_view help, std::string_view type) {
  name_ = name;
  counts_ = false;
  std::string family(name);
  // Samples of a counter have the suffix in both formats. Prometheus wants it in the head too, and
  // OpenMetrics does not.
  if (type == "counter" && format_ == Format::prometheus) family += "_total";
  text_.append("# HELP ").append(family).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(family).append(" ").append(type).append("\n");
}

Exposition& Exposition::sample(Labels labels, double value) {
  line(counts_ ? "_total" : "", labels, nullptr, value);
  return *this;
}

Exposition& Exposition::series(Labels labels, std::span<const Bucket> buckets, double sum,
                               std::uint64_t count) {
  for (const Bucket& bucket : buckets) {
    std::string bound;
    append_value(bound, bucket.bound);
    const Label last("le", bound);
    line("_bucket", labels, &last, static_cast<double>(bucket.count));
  }
  // Both formats want this bucket, even if the last bound is above all values. It is the count of all.
  const Label last("le", "+Inf");
  line("_bucket", labels, &last, static_cast<double>(count));
  line("_sum", labels, nullptr, sum);
  line("_count", labels, nullptr, static_cast<double>(count));
  return *this;
}

void Exposition::line(std::string_view suffix, Labels labels, const Label* last_label, double value) {
  SEPAL_ASSERT(!name_.empty(), "a sample comes before the head of its family");
  text_.append(name_).append(suffix);
  char before = '{';
  const auto append = [&](const Label& label) {
    text_ += std::exchange(before, ',');
    append_label(text_, label);
  };
  for (const Label& label : labels) append(label);
  if (last_label != nullptr) append(*last_label);
  if (before == ',') text_ += '}';
  text_ += ' ';
  append_value(text_, value);
  text_ += '\n';
}

std::string Exposition::finish() && {
  // OpenMetrics: a text without this line was cut off on its way, and is refused.
  if (format_ == Format::open_metrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace sepal::metrics

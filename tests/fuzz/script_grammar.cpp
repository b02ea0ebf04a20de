#include "script_grammar.hpp"

#include <iterator>

#include "script_words.hpp"

namespace sepal::test {
namespace {

using namespace script_words;

constexpr int levels_max = 7;
constexpr std::size_t text_bytes_max = 6000;

}  // namespace

bool ScriptGrammar::may_nest() const {
  return level_ < levels_max && text_.size() < text_bytes_max && !bytes_.empty();
}

std::string ScriptGrammar::script() {
  text_.clear();
  level_ = 0;
  const std::uint8_t kind = bytes_.byte();
  if (kind % 8 == 7) return bytes_.take(bytes_.byte());
  if (kind % 16 == 6) put("#!lua flags=no-writes\n");
  put(head);
  if (kind % 8 == 5) {
    // One call alone: most faults need no more.
    put("return {");
    call(true);
    put("}");
  } else {
    block();
  }
  return std::move(text_);
}

void ScriptGrammar::block() {
  ++level_;
  for (int statements = bytes_.byte() % 8; statements >= 0 && may_nest(); --statements) {
    statement();
    put("\n");
  }
  // Only the last statement of a block may leave it.
  switch (bytes_.byte() % 8) {
    case 0:
    case 1:
      put("return ");
      expression();
      break;
    case 2:
      put("error(");
      expression();
      put(")");
      break;
    default: break;
  }
  put("\n");
  --level_;
}

void ScriptGrammar::statement() {
  switch (bytes_.byte() % 16) {
    case 0:
    case 1:
      put(one_of(targets));
      put(" = ");
      return expression();
    case 2:
    case 3:
    case 4:
    case 5: put("a, b, c = "); return call(true);
    case 6: return call(false);
    case 7: return body("a, b = pcall(function(...) ", "end, a, b)");
    case 8: return loop();
    case 9: return branch();
    case 10: return body("f = function(...) ", "end");
    case 11: return change_table();
    case 12: return keep_coroutine();
    case 13: return compile_code();
    case 14: return fill_table();
    default: return body("do local a, f, t = c, g, {f} ", "end");
  }
}

void ScriptGrammar::body(std::string_view before, std::string_view behind) {
  put(before);
  block();
  put(behind);
}

void ScriptGrammar::loop() {
  switch (bytes_.byte() % 8) {
    case 0: return body("for i = 1, 10 do ", "end");
    case 1:
      put("for i = ");
      number();
      put(", ");
      number();
      put(", ");
      number();
      return body(" do ", "end");
    case 2: return body("for k, v in pairs(t) do a = k ", "end");
    case 3: return body("for i, v in ipairs(u) do b = v ", "end");
    case 4: return body("while true do ", "end");
    case 5: return body("for w in s:gmatch('.') do c = w ", "end");
    case 6: return body("repeat ", "until a");
    default:
      put("for k, v in ");
      expression();
      return body(", t do a, b = k, v ", "end");
  }
}

void ScriptGrammar::branch() {
  put("if ");
  expression();
  body(" then ", "");
  if (bytes_.byte() % 2 == 0) body("else ", "");
  put("end");
}

void ScriptGrammar::change_table() {
  if (bytes_.byte() % 2 == 0) {
    put("setmetatable(");
    put(one_of(tables));
    put(", ");
    table_with_metatable();
    return put(")");
  }
  put(bytes_.byte() % 2 == 0 ? "t[" : "u[");
  expression();
  put("] = ");
  expression();
}

void ScriptGrammar::keep_coroutine() {
  if (bytes_.byte() % 2 == 0) return body("f = coroutine.wrap(function(...) ", "end)");
  body("u.co = coroutine.create(function(...) ", "end)");
  put(" a, b = coroutine.resume(u.co, a)");
}

// Code that nests deeply, or is long.
void ScriptGrammar::compile_code() {
  const bool statements = bytes_.byte() % 2 == 0;
  const Nesting& nesting = statements ? statement_nestings[bytes_.byte() % std::size(statement_nestings)]
                                      : nestings[bytes_.byte() % std::size(nestings)];
  const std::string_view times = one_of(repeats);
  put("a, b = loadstring('local a, b, f = 1 ");
  if (!statements) put("return ");
  put("' .. ('");
  put(nesting.before);
  put("'):rep(");
  put(times);
  put(") .. '");
  put(nesting.middle);
  put("' .. ('");
  put(nesting.behind);
  put("'):rep(");
  // Not always as often.
  put(bytes_.byte() % 8 == 7 ? one_of(repeats) : times);
  put("), 'name') if a then a, b = pcall(a) end");
}

void ScriptGrammar::fill_table() {
  put("for i = 1, ");
  put(one_of(repeats));
  put(" do ");
  switch (bytes_.byte() % 4) {
    case 0:
      put("t[i] = ");
      expression();
      break;
    case 1: put("t = {t}"); break;
    case 2:
      put("t[");
      expression();
      put("] = i");
      break;
    default:
      put("s = s .. ");
      string();
      break;
  }
  put(" end");
}

void ScriptGrammar::expression() {
  switch (bytes_.byte() % 8) {
    case 0: return put(one_of(variables));
    case 1: return number();
    case 2: return string();
    case 3: return put(bytes_.byte() % 2 == 0 ? "nil" : "true");
    case 4: return put(one_of(tables));
    default:
      if (!may_nest()) return put("false");
      ++level_;
      nested_expression();
      --level_;
  }
}

void ScriptGrammar::nested_expression() {
  switch (bytes_.byte() % 8) {
    case 0: return table();
    case 1: return table_with_metatable();
    case 2: return function();
    case 3: return call(false);
    case 4:
      put("(select(2, ");
      call(true);
      return put("))");
    case 5:
      put(bytes_.byte() % 2 == 0 ? "(-(" : "(#(");
      expression();
      return put("))");
    case 6:
      put("(");
      expression();
      put(")[");
      expression();
      return put("]");
    default:
      put("(");
      expression();
      put(" ");
      put(one_of(operators));
      put(" ");
      expression();
      return put(")");
  }
}

void ScriptGrammar::number() {
  const std::uint8_t choice = bytes_.byte();
  if (choice < std::size(numbers)) return put(numbers[choice]);
  put(std::to_string(choice - std::size(numbers)));
}

void ScriptGrammar::string() {
  const std::uint8_t choice = bytes_.byte();
  if (choice < 0xe0) return put(strings[choice % std::size(strings)]);
  quoted(bytes_.take(choice & 0x1f));
}

void ScriptGrammar::quoted(std::string_view bytes) {
  put("'");
  for (const char each : bytes) {
    const bool plain = each >= ' ' && each <= '~' && each != '\'' && each != '\\';
    if (plain) {
      text_.push_back(each);
    } else {
      const std::string digits = std::to_string(static_cast<unsigned char>(each));
      put("\\" + std::string(3 - digits.size(), '0') + digits);
    }
  }
  put("'");
}

// Pieces one behind the other. They may be repeated.
void ScriptGrammar::repeated(std::span<const std::string_view> pieces) {
  const std::uint8_t count = bytes_.byte();
  put("('");
  for (int left = count % 8; left >= 0; --left) put(pieces[bytes_.byte() % pieces.size()]);
  put("')");
  if (count < 0xe0) return;
  put(":rep(");
  put(one_of(repeats));
  put(")");
}

void ScriptGrammar::table() {
  put("{");
  for (int left = bytes_.byte() % 5; left > 0; --left) {
    if (bytes_.byte() % 2 == 0) {
      put("[");
      expression();
      put("] = ");
    }
    expression();
    put(", ");
  }
  put("}");
}

void ScriptGrammar::table_with_metatable() {
  put("setmetatable({1, x = 2}, {");
  for (int left = bytes_.byte() % 3; left >= 0; --left) {
    put(one_of(metamethods));
    put(" = ");
    switch (bytes_.byte() % 4) {
      case 0:
      case 1: function(); break;
      default: expression();
    }
    put(", ");
  }
  put("})");
}

void ScriptGrammar::function() {
  if (bytes_.byte() % 4 != 3 || !may_nest()) return put(one_of(functions));
  body("function(a, b, ...) ", "end");
}

// `is_protected`: by pcall.
void ScriptGrammar::call(bool is_protected) {
  const ScriptFunction& function = library[bytes_.byte() % std::size(library)];
  put(is_protected ? "pcall(" : "");
  put(function.name);
  put(is_protected ? "" : "(");
  const std::size_t begin = text_.size();
  arguments(function.arguments);
  if (is_protected && text_.size() > begin) text_.insert(begin, ", ");
  put(")");
}

void ScriptGrammar::arguments(std::string_view kinds) {
  // Now and then some are left out, or of another kind.
  const std::uint8_t oddity = bytes_.byte();
  if (oddity >= 0xf0) kinds = kinds.substr(0, kinds.size() - std::min<std::size_t>(kinds.size(), oddity % 4));
  bool first = true;
  for (std::size_t at = 0; at < kinds.size(); ++at) {
    if (!first) put(", ");
    first = false;
    const bool is_odd = (oddity & 0xf0) == 0xe0 && oddity % 4 == at;
    argument(is_odd ? 'v' : kinds[at]);
  }
}

void ScriptGrammar::argument(char kind) {
  switch (kind) {
    case 's': return string();
    case 'n': return number();
    case 't': return put(one_of(tables));
    case 'f': return function();
    case 'c': return put(one_of(coroutines));
    case 'p': return repeated(patterns);
    case 'm': return repeated(formats);
    case 'j': return repeated(json);
    case 'x': return bytes_.byte() % 2 == 0 ? repeated(json) : string();
    case 'w': return words();
    case '*': return put(bytes_.byte() % 2 == 0 ? "a, b, c, s, t, f" : "unpack(t)");
    default: return expression();
  }
}

// The commands of fuzz_script.cpp are numbers.
void ScriptGrammar::words() {
  put("'" + std::to_string(bytes_.byte() % 32) + "'");
  for (int left = bytes_.byte() % 4; left > 0; --left) {
    put(", ");
    bytes_.byte() % 2 == 0 ? string() : number();
  }
}

}  // namespace sepal::test

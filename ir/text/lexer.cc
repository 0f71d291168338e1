// The lexer: one pass over the bytes, nothing kept but the place.
#include "ir/text/lexer.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace seam::text {
namespace {

// Longest first, so that the first that matches is the token.
constexpr absl::string_view kPunctuation[] = {
    "...", "//", "**", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "(", ")", "[", "]", "{", "}",
    ",",   ":",  "=",  "+",  "-",  "*",  "/",  "%",  "@",  "<",  ">",  "&", "|", "^", "~", "?", "!",
};

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsHexDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 where there is none.
// Source: The Unicode Standard 15.0, table 3-7.
size_t Utf8Length(absl::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  auto within = [&](size_t i, int lo, int hi) { return byte(i) >= lo && byte(i) <= hi; };
  int first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    int lo = first == 0xe0 ? 0xa0 : 0x80, hi = first == 0xed ? 0x9f : 0xbf;
    return within(1, lo, hi) && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    int lo = first == 0xf0 ? 0x90 : 0x80, hi = first == 0xf4 ? 0x8f : 0xbf;
    return within(1, lo, hi) && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

std::string ByteName(char c) { return absl::StrFormat("byte 0x%02X", static_cast<uint8_t>(c)); }

}  // namespace

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of file";
    case TokenKind::kNewline:
      return "end of line";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return absl::StrCat("number ", Quoted(token.text));
    default:
      return Quoted(token.text);
  }
}

Lexer::Lexer(const TextSource& source) : source_(source) {
  // A byte order mark says nothing in UTF-8, but some editors write one.
  if (source_.text.substr(0, 3) == "\xEF\xBB\xBF") position_ = 3;
}

void Lexer::Fail(size_t offset, absl::string_view message) {
  if (status_.ok()) status_ = ErrorAt(source_, offset, message);
}

void Lexer::SkipComment() {
  absl::string_view text = source_.text;
  while (position_ < text.size() && text[position_] != '\n') {
    size_t length = Utf8Length(text.substr(position_, 4));
    if (length == 0) {
      return Fail(position_, absl::StrCat("found ", ByteName(text[position_]), " at offset ",
                                          position_, ", expected UTF-8"));
    }
    if (text[position_] == '\0') {
      return Fail(position_,
                  absl::StrCat("found a NUL byte at offset ", position_, ", expected text"));
    }
    position_ += length;
  }
}

// Skips to the next token; true if that is a newline that counts.
bool Lexer::SkipSpace() {
  absl::string_view text = source_.text;
  while (position_ < text.size() && status_.ok()) {
    char c = text[position_];
    if (c == '#') {
      SkipComment();
    } else if (c == '\n') {
      if (brackets_ == 0) return true;
      line_begin_ = ++position_;
      ++line_;
    } else if (c == ' ' || c == '\t' || (c == '\r' && text.substr(position_ + 1, 1) == "\n")) {
      ++position_;
    } else {
      break;
    }
  }
  return false;
}

Token Lexer::Make(TokenKind kind, size_t end) {
  Token token;
  token.kind = kind;
  token.offset = position_;
  token.text = source_.text.substr(position_, end - position_);
  token.location.line = line_;
  token.location.column = static_cast<int32_t>(1 + position_ - line_begin_);
  position_ = end;
  return token;
}

Token Lexer::Number() {
  absl::string_view text = source_.text;
  auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  size_t end = position_;
  bool is_float = false;
  if (text[end] == '0' && (at(end + 1) == 'x' || at(end + 1) == 'X') && IsHexDigit(at(end + 2))) {
    for (end += 2; IsHexDigit(at(end));) ++end;
  } else {
    while (IsDigit(at(end))) ++end;
    if (at(end) == '.' && at(end + 1) != '.') {
      is_float = true;
      do ++end;
      while (IsDigit(at(end)));
    }
    if (at(end) == 'e' || at(end) == 'E') {
      size_t digits = end + 1 + (at(end + 1) == '+' || at(end + 1) == '-');
      if (IsDigit(at(digits))) {
        is_float = true;
        for (end = digits; IsDigit(at(end));) ++end;
      }
    }
  }
  if (IsNameChar(at(end))) {
    size_t bad = end;
    while (IsNameChar(at(bad))) ++bad;
    Fail(position_, absl::StrCat("found ", Quoted(text.substr(position_, bad - position_)),
                                 ", expected a number"));
    return Make(TokenKind::kEnd, position_);
  }
  return Make(is_float ? TokenKind::kFloat : TokenKind::kInteger, end);
}

Token Lexer::Next() {
  bool newline = SkipSpace();
  absl::string_view text = source_.text;
  if (!status_.ok() || position_ >= text.size()) return Make(TokenKind::kEnd, position_);
  char c = text[position_];
  if (newline) {
    Token token = Make(TokenKind::kNewline, position_ + 1);
    line_begin_ = position_;
    ++line_;
    return token;
  }
  if (IsNameStart(c)) {
    size_t end = position_ + 1;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    return Make(TokenKind::kName, end);
  }
  if (IsDigit(c) || (c == '.' && position_ + 1 < text.size() && IsDigit(text[position_ + 1]))) {
    return Number();
  }
  for (absl::string_view punctuation : kPunctuation) {
    if (c != punctuation[0] || text.substr(position_, punctuation.size()) != punctuation) continue;
    if (c == '(' || c == '[') ++brackets_;
    if (c == ')' || c == ']') brackets_ = std::max(0, brackets_ - 1);
    return Make(TokenKind::kPunctuation, position_ + punctuation.size());
  }
  size_t length = Utf8Length(text.substr(position_, 4));
  if (length == 0) {
    Fail(position_,
         absl::StrCat("found ", ByteName(c), " at offset ", position_, ", expected UTF-8"));
  } else if (length > 1) {
    Fail(position_, "found a character that is not ASCII, which only comments may hold");
  } else if (c > ' ' && c < 0x7f) {
    Fail(position_, absl::StrCat("found ", Quoted(text.substr(position_, 1)),
                                 ", which begins nothing in this language"));
  } else {
    Fail(position_, absl::StrCat("found control character ", ByteName(c), " at offset ", position_,
                                 ", expected text"));
  }
  return Make(TokenKind::kEnd, position_);
}

}  // namespace seam::text

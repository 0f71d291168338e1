// The text of a kernel's integer arithmetic, and the lines around it.
//
// A block of the emitted text is a scope: its lines, the symbols bound there, the values named
// there. The home of an expression is the innermost scope that binds one of its symbols. Divisions,
// remainders, minima, selections and whatever is computed further out than it is used become
// constants with a name, declared once in their home before the statement that needs them: no inner
// loop repeats the arithmetic of an outer one. Sums are split by the homes of their terms.
//
// Where the kernel promises 32 bits, all arithmetic is in `int`; elsewhere a value is `int` where
// its range and those of its operands prove that nothing overflows, and `long long` otherwise.
// Divisions whose operands cannot be negative are unsigned. Thread-safety: none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "ir/symbolic/sym_int.h"
#include "runtime/codegen/identifiers.h"

namespace seam {

class IndexText {
 public:
  IndexText(bool index32, Identifiers* names) : index32_(index32), names_(names) {}

  // Scopes. Lines are kept without indentation; Exit indents those of its scope by one step.
  void Enter() { scopes_.emplace_back(); }
  std::vector<std::string> Exit();
  void Line(std::string line) { scopes_.back().lines.push_back(std::move(line)); }
  void Lines(std::vector<std::string> lines);

  // From here on `symbol` is the variable `name` of the current scope, whose type is
  // TypeOf(symbol).
  void Bind(SymInt symbol, std::string name);
  // The same for a symbol of the outermost scope, declared as `const TypeOf(symbol) name =
  // definition;` when it is first used.
  void BindOnUse(SymInt symbol, std::string name, std::string definition);

  absl::string_view TypeOf(SymInt e) const;  // "int" or "long long", by the range alone.
  bool IsWide(SymInt e) const;

  // A name or a constant for `e`, fit for any context; what is neither is declared first.
  std::string Name(SymInt e);
  // `e` as the condition of an `if` or a `?:`.
  std::string Condition(SymInt e);
  // `e`, a slot, over constants and variables only: nothing is declared.
  std::string Slot(SymInt e);

 private:
  struct Scope {
    std::vector<std::string> lines;
    absl::flat_hash_map<std::string, std::string> named;  // Text to name.
  };
  struct Variable {
    std::string name;
    int home;
    std::string definition;  // Not yet declared, where it is not empty.
  };
  enum Precedence { kAtom, kProduct, kSum, kComparison, kAnd, kOr, kTernary };
  struct Text {
    std::string text;
    Precedence precedence = kAtom;
    bool wide = false;
    int home = 0;
    bool boolean = false;
  };
  struct Sum;

  Text Build(SymInt e);
  Text BuildAdd(const SymNode* node);
  Text BuildProduct(const SymNode* node);
  Text BuildDivision(const SymNode* node);
  Text BuildSelect(const SymNode* node);
  Text BuildExtremum(const SymNode* node);
  Text BuildLogic(const SymNode* node);
  Text Named(Text text);
  // `text` as it is, or its name where it is computed further out than here.
  Text Hoisted(Text text);
  static std::string In(const Text& text, Precedence context);

  const bool index32_;
  Identifiers* names_;
  std::vector<Scope> scopes_;
  absl::flat_hash_map<const SymNode*, Variable> variables_;
  bool inline_only_ = false;
};

}  // namespace seam

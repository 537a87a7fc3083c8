const KEPT = `matcha-gnn answers ${GRAPH}`;
const questions = [...document.querySelectorAll(".question")];
const jumps = [...document.querySelectorAll("[data-jump]")];
let answers = {};
let shown = 0;

// Private windows may refuse to keep anything.
try {
  answers = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
} catch {
  document.getElementById("volatile").hidden = false;
}

const keep = () => {
  try {
    localStorage.setItem(KEPT, JSON.stringify(answers));
  } catch {
    document.getElementById("volatile").hidden = false;
  }
};

const answered = (question) => question.dataset.node in answers;

const draw = () => {
  const done = questions.filter(answered).length;
  document.getElementById("progress").value = done;
  document.getElementById("count").textContent = `${done} of ${questions.length} answered`;
  questions.forEach((question, place) => {
    question.hidden = place !== shown;
    for (const button of question.querySelectorAll("[data-class]")) {
      const chosen = answered(question) && answers[question.dataset.node] === Number(button.dataset.class);
      button.setAttribute("aria-pressed", String(chosen));
    }
    jumps[place].classList.toggle("done", answered(question));
    jumps[place].toggleAttribute("aria-current", place === shown);
  });
};

const show = (place) => {
  shown = Math.min(Math.max(place, 0), questions.length - 1);
  draw();
  questions[shown]?.querySelector("h2").focus();
};

const choose = (question, label) => {
  const node = question.dataset.node;
  if (answers[node] === label) {
    delete answers[node];
    keep();
    draw();
    return;
  }
  answers[node] = label;
  keep();
  const next = questions.findIndex((other, place) => place > shown && !answered(other));
  show(next < 0 ? shown : next);
};

const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

const csv = () => {
  const rows = [["number", "node", "label", COLUMN]];
  for (const question of questions.filter(answered)) {
    const { number, node } = question.dataset;
    rows.push([number, node, CLASSES[answers[node]], GRAPH]);
  }
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
};

const save = () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = "answers.csv";
  link.click();
  URL.revokeObjectURL(link.href);
};

questions.forEach((question) => {
  for (const button of question.querySelectorAll("[data-class]")) {
    button.addEventListener("click", () => choose(question, Number(button.dataset.class)));
  }
  for (const button of question.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => show(shown + Number(button.dataset.step)));
  }
});
jumps.forEach((button, place) => button.addEventListener("click", () => show(place)));
document.getElementById("save").addEventListener("click", save);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !questions.length) return;
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    event.preventDefault();
    show(shown + (event.key === "ArrowRight" ? 1 : -1));
    return;
  }
  const key = event.key.toLowerCase();
  const button = [...questions[shown].querySelectorAll("[data-class]")].find(
    (each) => each.getAttribute("aria-keyshortcuts") === key,
  );
  if (button) {
    event.preventDefault();
    button.click();
  }
});
const first = questions.findIndex((question) => !answered(question));
shown = first < 0 ? 0 : first;
draw();

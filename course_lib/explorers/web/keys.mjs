// JupyterLab takes arrow keys for its cells, unless the part with the focus says that keys are its own.

document.addEventListener("focusin", ({ target }) => {
  const part = target.closest?.(".course-explorer, .course-quiz-live");
  part?.setAttribute("data-lm-suppress-shortcuts", "true");
});

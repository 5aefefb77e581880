// The choices of a question become one group, as radio buttons are elsewhere: Tab goes to the group, and
// the arrow keys through it. Without this they would be JupyterLab's, and go to the next cell.

document.addEventListener("focusin", ({ target }) => {
  const group = target.closest?.(".course-quiz-live .widget-radio-box");
  if (!group || group.dataset.courseGroup) return;
  group.dataset.courseGroup = `course-${Math.random()}`;
  for (const button of group.querySelectorAll("input")) button.name = group.dataset.courseGroup;
  group.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) event.stopPropagation();
  });
});

export default { render() {} };

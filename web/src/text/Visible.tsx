import { memo } from 'react'
import { segments } from './visible'

/** A text from a model or a tool, with what would not be seen made visible. */
export const Visible = memo(function Visible({ text }: { text: string }) {
  return (
    <bdi>
      {segments(text).map((s, i) =>
        s.hidden ? (
          <span key={i} className="hidden-char" title={s.hidden}>
            {s.text}
          </span>
        ) : (
          s.text
        ),
      )}
    </bdi>
  )
})
